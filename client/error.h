// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors are returned as the absl::Status that the server sent, or that the client made if it found the same
// fault before sending anything: code and message, and for programs a reason with metadata. The reasons are
// those of error_reasons.h; the .proto files say what each means. The client returns BAD_HEADER for most
// wrong arguments, also for bytes that are no whole number of elements.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/error_reasons.h"

namespace warpfold {

struct ErrorInfo {
  std::string reason;  // such as "OVERFLOW"
  std::string domain;  // "warpfold"
  std::map<std::string, std::string> metadata;
};

// The reason that a status has; nothing for OK and for errors without one, such as a connection that cannot
// be made, a call that was cancelled, or an invalid target.
std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);

// The status for people, as the command line prints it: "INVALID_ARGUMENT (EMPTY_ARRAY): min of no elements
// has no value", "OK". `std::cerr << status` would print the reason and its metadata as the escaped bytes of
// a message. A server's text is not checked: it may contain control characters.
std::string ErrorText(const absl::Status& status);

}  // namespace warpfold
