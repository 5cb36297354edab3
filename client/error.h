// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors come back as the absl::Status that the server had, or that the client made where it finds the same
// fault before anything is sent: code and message, and for programs a reason with metadata. The reasons are
// those of proto/error_reasons.h; the .proto files say what each means.
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

// The reason that a status has; nothing for OK and for errors without one, as of a connection that cannot be
// made, a call that was cancelled, or a target that is none.
std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);

}  // namespace warpfold
