// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The methods that take one message, apart from their transport.
//
// Threads: from any thread. ReduceArray blocks on slots and on the device until `call` is stopped.
#pragma once

#include "absl/status/statusor.h"
#include "server/call_control.h"
#include "server/engine.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

absl::StatusOr<v1::ReduceArrayResponse> ReduceArray(Engine& engine, const CallControl& call,
                                                    const v1::ReduceArrayRequest& request);

absl::StatusOr<v1::MergeResponse> Merge(const Engine& engine, const v1::MergeRequest& request);

v1::GetServerInfoResponse GetServerInfo(Engine& engine);

}  // namespace warpfold::server
