// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors come back as the absl::Status that the server had: code and message, and for programs a
// reason with metadata. The reasons are listed at the top of reduction.proto.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace warpfold {

struct ErrorInfo {
  std::string reason;  // as "OVERFLOW"
  std::string domain;  // "warpfold"
  std::map<std::string, std::string> metadata;
};

// What the server attached to the status; nothing for OK and for errors from elsewhere, such as a
// connection that cannot be made.
std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);

}  // namespace warpfold
