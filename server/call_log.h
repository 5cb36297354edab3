// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One line of log for each finished call.
#pragma once

#include "server/core/service.h"

namespace warpfold::server {

void LogCall(const CallRecord& call);

}  // namespace warpfold::server
