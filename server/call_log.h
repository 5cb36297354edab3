// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One line of log for each finished call.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold::server {

// `request_id` is the client's, printable.
void LogCall(absl::string_view method, const absl::Status& status, std::uint64_t bytes, absl::Duration took,
             const std::string& request_id);

}  // namespace warpfold::server
