// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/memory_return.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "server/process/process.h"

namespace warpfold::server {
namespace {

constexpr absl::Duration kTrimInterval = absl::Seconds(5);
constexpr absl::Duration kBusyPause = absl::Minutes(1);
constexpr absl::Duration kLongestPause = absl::Minutes(10);
constexpr absl::Duration kUrgentPause = absl::Milliseconds(200);
// The process counts as quiet below this share of one core: it then has time to fetch its memory again.
constexpr double kQuietShare = 0.1;

// malloc_trim alone is not enough: it gives back free memory in the middle of the arenas, but the free end
// (up to 64 MiB) of the first arena only. While the allocator keeps nothing, the ends of the others go when
// their threads next free something.
void KeepFree(bool keep) {
  if (keep) return TuneAllocator();
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  mallopt(M_TOP_PAD, 0);
}

}  // namespace

ReturnLevels ReturnLevelsOf(std::uint64_t at_start, const MemoryBudget& budget) {
  const std::uint64_t own = budget.total() - budget.pinned;
  const std::uint64_t stays =
      std::min(budget.slots - budget.pinned + budget.receive + budget.resident, at_start);
  const std::uint64_t enough = stays + (at_start - stays) / 4 * 5;
  return {.enough = enough, .much = std::max(stays + (own - stays) / 2, enough)};
}

ProcessMemory MemoryOfThisProcess() {
  return {.own_bytes = [] { return Resident().own_bytes; },
          .cpu_time = CpuTime,
          .trim = [] { malloc_trim(/*pad=*/0); },
          .keep_free = KeepFree};
}

MemoryReturn::MemoryReturn(absl::Time now, const MemoryBudget& budget, ProcessMemory memory)
    : memory_(std::move(memory)),
      levels_(ReturnLevelsOf(memory_.own_bytes(), budget)),
      next_check_(now + kTrimInterval),
      last_return_(now),
      pause_(kTrimInterval),
      cpu_time_(memory_.cpu_time()) {}

void MemoryReturn::TrimIfLarge(absl::Time now) {
  if (memory_.own_bytes() > levels_.much) return ReturnAtOnce(now);
  if (now < next_check_) return;
  next_check_ = now + kTrimInterval;
  const bool quiet = IsQuiet();
  if (std::exchange(is_eager_, false)) memory_.keep_free(true);
  if (!quiet) pause_ = kTrimInterval;
  if (now - last_return_ < (quiet ? pause_ : kBusyPause)) return;
  if (memory_.own_bytes() <= levels_.enough) return;
  last_return_ = now;
  memory_.trim();
  if (!quiet || memory_.own_bytes() <= levels_.enough) return;
  memory_.keep_free(false);
  is_eager_ = true;
  pause_ = std::min(2 * pause_, kLongestPause);
}

void MemoryReturn::ReturnAtOnce(absl::Time now) {
  if (now - last_return_ < kUrgentPause) return;
  last_return_ = now;
  is_eager_ = true;
  memory_.keep_free(false);
  memory_.trim();
}

bool MemoryReturn::IsQuiet() {
  const absl::Duration cpu_time = memory_.cpu_time();
  return cpu_time - std::exchange(cpu_time_, cpu_time) < kQuietShare * kTrimInterval;
}

}  // namespace warpfold::server
