// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/progress.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "client/cli/output.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

constexpr absl::Duration kDrawEvery = absl::Milliseconds(100);
constexpr absl::Duration kLineEvery = absl::Seconds(1);
constexpr int kBarWidth = 30;

}  // namespace

std::string ProgressLine(std::uint64_t bytes, std::optional<std::uint64_t> total, absl::Duration elapsed) {
  const double seconds = std::max(absl::ToDoubleSeconds(elapsed), 1e-3);
  const double rate = static_cast<double>(bytes) / seconds;
  const std::string amount =
      absl::StrFormat("%.2f GB  %.2f GB/s", static_cast<double>(bytes) * 1e-9, rate * 1e-9);
  if (!total.has_value() || *total == 0) return amount;
  const double share = std::min(1.0, static_cast<double>(bytes) / static_cast<double>(*total));
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  const std::string bar = std::string(filled, '=') + std::string(kBarWidth - filled, ' ');
  const double left = rate > 0 ? static_cast<double>(*total - std::min(bytes, *total)) / rate : 0;
  return absl::StrFormat("%3d %% [%s] %s  %.0f s left", static_cast<int>(share * 100), bar, amount, left);
}

Progress::Progress(std::optional<std::uint64_t> total, bool lines, bool may_draw)
    : total_(total), visible_(may_draw && IsTerminal(stderr)), lines_(lines && !visible_) {}

Progress::~Progress() {
  if (visible_) absl::FPrintF(stderr, "\r\x1b[K");
}

void Progress::Add(std::uint64_t bytes) {
  if (!visible_ && !lines_) return;
  absl::MutexLock lock(&mutex_);
  bytes_ += bytes;
  const absl::Time now = SteadyNow();
  if (now - drawn_ < (lines_ ? kLineEvery : kDrawEvery)) return;
  drawn_ = now;
  const std::string line = ProgressLine(bytes_, total_, now - start_);
  absl::FPrintF(stderr, "%s%s%s", lines_ ? "" : "\r", line, lines_ ? "\n" : "\x1b[K");
}

}  // namespace warpfold::cli
