// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where answers and errors go.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold::cli {

// The text, whose control characters and whatever is not UTF-8 become \xNN: names of files and what servers
// say must not steer a terminal.
std::string Printable(absl::string_view text);

// "warpfold: INVALID_ARGUMENT: message" on standard error, of a call that failed. Returns kExitServerError,
// or kExitUsage if the client has refused the call by itself.
int ReportCallError(const absl::Status& status);

// "warpfold: what: message" on standard error. Returns kExitUsage. An input that has not come in time is no
// wrong one: DEADLINE_EXCEEDED is reported as a call's.
int ReportInputError(absl::string_view what, const absl::Status& status);

bool IsTerminal(std::FILE* file);

// What was done, of one array.
struct Summary {
  std::uint64_t element_count = 0;
  std::uint64_t byte_count = 0;
  absl::Duration total;
  std::string device;
};

// "1,000,000 elements, 8 MB, in 0.012 s (0.67 GB/s) on cpu".
std::string SummaryText(const Summary& summary);

// The same for people, on standard error: if it is a terminal, or if that was `asked` for.
void PrintSummary(bool asked, const Summary& summary);

// Prints the answer. kExitOk, or kExitUsage if standard output does not take it.
int PrintAnswer(const std::string& text);

}  // namespace warpfold::cli
