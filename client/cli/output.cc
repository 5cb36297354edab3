// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/flags.h"
#include "client/connections/status.h"

namespace warpfold::cli {
namespace {

// From this number on, %.3g rounds to 1000 and writes it as 1e+03.
constexpr double kRoundsToThousand = 999.5;

// Three digits, or whole seconds or microseconds where %.3g would write an exponent.
std::string SecondsText(double seconds) {
  if (seconds >= kRoundsToThousand) return absl::StrFormat("%.0f", seconds);
  return seconds < 1e-3 ? absl::StrFormat("%.6f", seconds) : absl::StrFormat("%.3g", seconds);
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string printable;
  bool second_of_two = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Those from 0x80 to 0x9f have two bytes in UTF-8, of which the first is this.
    const bool first_of_two =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte < 0x20 || byte == 0x7f || first_of_two || second_of_two) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable.push_back(text[i]);
    }
    second_of_two = first_of_two;
  }
  return printable;
}

int ReportCallError(const absl::Status& status) {
  absl::FPrintF(stderr, "warpfold: %s: %s\n", absl::StatusCodeToString(status.code()),
                Printable(status.message()));
  return IsRefusedCall(status) ? kExitUsage : kExitServerError;
}

int ReportInputError(absl::string_view what, const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return ReportCallError(status);
  absl::FPrintF(stderr, "warpfold: %s: %s\n", Printable(what), Printable(status.message()));
  return kExitUsage;
}

bool IsTerminal(std::FILE* file) { return isatty(fileno(file)) == 1; }

std::string SummaryText(const Summary& summary) {
  const std::string digits = absl::StrCat(summary.element_count);
  std::string elements;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) elements += ',';
    elements += digits[i];
  }
  constexpr std::array<const char*, 6> kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double amount = static_cast<double>(summary.byte_count) / 1e3;
  std::size_t unit = 0;
  for (; amount >= kRoundsToThousand && unit + 1 < kUnits.size(); ++unit) amount /= 1000;
  const double seconds = absl::ToDoubleSeconds(summary.total);
  const double rate = static_cast<double>(summary.byte_count) / std::max(seconds, 1e-9) / 1e9;
  return absl::StrFormat("%s elements, %.3g %s, in %s s (%.2f GB/s) on %s", elements, amount, kUnits[unit],
                         SecondsText(seconds), rate, Printable(summary.device));
}

void PrintSummary(bool asked, const Summary& summary) {
  if (asked || IsTerminal(stderr)) absl::FPrintF(stderr, "%s\n", SummaryText(summary));
}

int PrintAnswer(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return kExitOk;
  absl::FPrintF(stderr, "warpfold: cannot write to standard output\n");
  return kExitUsage;
}

}  // namespace warpfold::cli
