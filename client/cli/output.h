// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where answers and errors go.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpfold::cli {

// The text with control characters as \xNN: names of files and what servers say must not steer a terminal.
std::string Printable(absl::string_view text);

// "warpfold: INVALID_ARGUMENT: message" on standard error. Returns kExitServerError.
int ReportServerError(const absl::Status& status);

// "warpfold: what: message" on standard error. Returns kExitUsage.
int ReportInputError(absl::string_view what, const absl::Status& status);

// Prints the answer. kExitOk, or kExitUsage if standard output does not take it.
int PrintAnswer(const std::string& text);

}  // namespace warpfold::cli
