// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/output.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "client/cli/flags.h"

namespace warpfold::cli {

int ReportServerError(const absl::Status& status) {
  absl::FPrintF(stderr, "warpfold: %s: %s\n", absl::StatusCodeToString(status.code()), status.message());
  return kExitServerError;
}

int ReportInputError(absl::string_view what, const absl::Status& status) {
  absl::FPrintF(stderr, "warpfold: %s: %s\n", what, status.message());
  return kExitUsage;
}

int PrintAnswer(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return kExitOk;
  absl::FPrintF(stderr, "warpfold: cannot write to standard output\n");
  return kExitUsage;
}

}  // namespace warpfold::cli
