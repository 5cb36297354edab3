// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Answers GetServerInfo: what the service can do, and its limits.
#pragma once

#include "server/core/calls/service.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// Threads: any.
v1::GetServerInfoResponse GetServerInfo(const Service& service);

}  // namespace warpfold::server
