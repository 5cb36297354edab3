// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/flags.h"
#include "client/connections/status.h"
#include "client/error.h"

namespace warpfold::cli {
namespace {

// The number of bytes of the UTF-8 character with which the text begins; 0 for a control character, and for
// bytes that are not a character: an 8-bit terminal interprets a lone byte of 0x80 to 0x9f as a control
// character.
std::size_t CharacterBytes(absl::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // These are control characters, then overlong encodings, surrogates, and code points beyond Unicode.
  const bool is_none = (byte(0) == 0xc2 && byte(1) < 0xa0) || (byte(0) == 0xe0 && byte(1) < 0xa0) ||
                       (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90) ||
                       (byte(0) == 0xf4 && byte(1) >= 0x90);
  return is_none ? 0 : size;
}

// Writes all of it, though another process may have made the pipe or terminal that we share non-blocking.
bool WriteAll(int file, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(file, text.data(), text.size());
    if (size > 0) text.remove_prefix(static_cast<std::size_t>(size));
    if (size > 0 || (size < 0 && errno == EINTR)) continue;
    if (size == 0) return false;
    pollfd room = {.fd = file, .events = POLLOUT, .revents = 0};
    if (errno != EAGAIN || (poll(&room, 1, -1) < 0 && errno != EINTR)) return false;
  }
  return true;
}

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
  while (!text.empty()) {
    const std::size_t size = CharacterBytes(text);
    if (size > 0) {
      absl::StrAppend(&printable, text.substr(0, size));
    } else {
      absl::StrAppendFormat(&printable, "\\x%02x", static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return printable;
}

int ReportCallError(const absl::Status& status) {
  absl::FPrintF(stderr, "warpfold: %s\n", Printable(ErrorText(status)));
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
  if (std::fflush(stdout) == 0 && WriteAll(fileno(stdout), text)) return kExitOk;
  absl::FPrintF(stderr, "warpfold: cannot write to standard output\n");
  return kExitUsage;
}

}  // namespace warpfold::cli
