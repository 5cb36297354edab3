// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/processors.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/shared/control_groups.h"

namespace warpfold {
namespace {

// On some machines the system has more processors in its sets than cpu_set_t has.
int ProcessorsToRunOn() {
  constexpr std::size_t kMost = 1 << 16;
  std::size_t size = CPU_SETSIZE;
  for (; size <= kMost; size *= 2) {
    std::vector<cpu_set_t> sets(size / CPU_SETSIZE);
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) return CPU_COUNT_S(bytes, sets.data());
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The time of how many processors the group grants, rounded up; nothing where it grants all.
std::optional<std::int64_t> GrantOf(const ControlGroup& group) {
  const std::string text = group.is_version_2 ? TextOf(group.folder + "cpu.max")
                                              : TextOf(group.folder + "cpu.cfs_quota_us") + " " +
                                                    TextOf(group.folder + "cpu.cfs_period_us");
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipWhitespace());
  std::int64_t quota = 0;  // in microseconds, as the period; "max" or -1 for no limit
  std::int64_t period = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &quota) || !absl::SimpleAtoi(words[1], &period)) {
    return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period + static_cast<std::int64_t>(quota % period > 0);
}

}  // namespace

int ProcessorCount(const std::string& proc, const std::string& sys) {
  std::int64_t count = ProcessorsToRunOn();
  for (const ControlGroup& group : ControlGroupsOf("cpu", proc, sys)) {
    count = std::min(count, GrantOf(group).value_or(count));
  }
  return static_cast<int>(std::max(count, std::int64_t{1}));
}

}  // namespace warpfold
