// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/group_times.h"

namespace warpfold::kernels::cpu {
namespace {

// Raises the value to `least`, and returns what it is then.
std::int64_t RaiseTo(std::atomic<std::int64_t>& value, std::int64_t least) {
  std::int64_t now = value.load(std::memory_order_relaxed);
  while (now < least) {
    if (value.compare_exchange_weak(now, least, std::memory_order_relaxed)) return least;
  }
  return now;
}

}  // namespace

void GroupTimes::Charge(std::uint64_t group, Time took) {
  const std::size_t entry = group % kEntries;
  RaiseTo(had_[entry], most_.load(std::memory_order_relaxed) - kMaxBehind.count());
  RaiseTo(most_, had_[entry].fetch_add(took.count(), std::memory_order_relaxed) + took.count());
  const std::int64_t before = all_.fetch_add(took.count(), std::memory_order_relaxed);
  const std::size_t last = last_.exchange(entry, std::memory_order_relaxed);
  if (last != entry && last != kEntries) others_at_.store(before, std::memory_order_relaxed);
}

bool GroupTimes::Yields(std::uint64_t group) const {
  const std::size_t entry = group % kEntries;
  const std::size_t last = last_.load(std::memory_order_relaxed);
  const std::int64_t alone_for =
      last != entry ? 0 : all_.load(std::memory_order_relaxed) - others_at_.load(std::memory_order_relaxed);
  if (last == kEntries || alone_for > kLately.count()) return false;
  return had_[entry].load(std::memory_order_relaxed) + kFarBehind.count() >
         most_.load(std::memory_order_relaxed);
}

}  // namespace warpfold::kernels::cpu
