// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/trace_context.h"

#include <algorithm>
#include <cstdint>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kVersionDigits = 2;
constexpr std::size_t kTraceDigits = 32;
constexpr std::size_t kSpanDigits = 16;
constexpr std::size_t kFlagsDigits = 2;
constexpr std::size_t kTextBytes = kVersionDigits + kTraceDigits + kSpanDigits + kFlagsDigits + 3;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '0'; });
}

// Takes the next digits, and the dash before them unless they are the first.
std::optional<absl::string_view> Take(absl::string_view& text, std::size_t digits, bool is_first = false) {
  if (!is_first) {
    if (text.empty() || text.front() != '-') return std::nullopt;
    text.remove_prefix(1);
  }
  const absl::string_view taken = text.substr(0, digits);
  if (taken.size() != digits || !IsHex(taken)) return std::nullopt;
  text.remove_prefix(digits);
  return taken;
}

std::string RandomSpanId() {
  thread_local absl::BitGen random;
  const auto id = absl::Uniform<std::uint64_t>(absl::IntervalClosed, random, 1, UINT64_MAX);
  return absl::StrCat(absl::Hex(id, absl::kZeroPad16));
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(absl::string_view text) {
  if (text.size() < kTextBytes) return std::nullopt;
  const auto version = Take(text, kVersionDigits, /*is_first=*/true);
  const auto trace = Take(text, kTraceDigits);
  const auto span = Take(text, kSpanDigits);
  const auto flags = Take(text, kFlagsDigits);
  if (!version || !trace || !span || !flags || *version == "ff" || IsZero(*trace) || IsZero(*span)) {
    return std::nullopt;
  }
  // A later version may have more fields after these.
  if (!text.empty() && (*version == "00" || text.front() != '-')) return std::nullopt;
  return TraceContext{.trace_id = std::string(*trace),
                      .parent_span_id = std::string(*span),
                      .span_id = RandomSpanId(),
                      .flags = std::string(*flags),
                      .state = ""};
}

std::string ToTraceresponse(const TraceContext& context) {
  return absl::StrCat("00-", context.trace_id, "-", context.span_id, "-", context.flags);
}

}  // namespace warpfold::server
