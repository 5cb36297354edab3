// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the core takes the time from: SteadyNow (proto/shared/steady_time.h) in the service, a variable in
// tests.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace warpfold::server {

// May be called from any thread.
using Clock = std::function<absl::Time()>;

}  // namespace warpfold::server
