// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where results and errors are printed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold::cli {

// The text, with control characters and anything that is not UTF-8 replaced by \xNN: names of files and
// servers' texts must not control a terminal.
std::string Printable(absl::string_view text);

// "warpfold: INVALID_ARGUMENT (EMPTY_ARRAY): message" on standard error, for a call that failed. The reason,
// in parentheses, is for programs, and is left out if the error has none. Returns kExitServerError, or
// kExitUsage if the client itself has rejected the call.
int ReportCallError(const absl::Status& status);

// "warpfold: what: message" on standard error. Returns kExitUsage. An input that has not come in time is not
// a wrong one: DEADLINE_EXCEEDED is reported like a call's.
int ReportInputError(absl::string_view what, const absl::Status& status);

bool IsTerminal(std::FILE* file);

// What was done for one array.
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

// Prints the result. Returns kExitOk, or kExitUsage if standard output does not accept it.
int PrintAnswer(const std::string& text);

}  // namespace warpfold::cli
