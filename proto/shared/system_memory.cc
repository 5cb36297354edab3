// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/system_memory.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/shared/control_groups.h"

namespace warpfold {
namespace {

// What a version of control groups calls its files. Pages of files count as used memory, but the kernel drops
// them when more is asked for.
struct GroupFiles {
  absl::string_view limit;
  absl::string_view usage;
  absl::string_view file_pages[2];  // lines of memory.stat
};
constexpr GroupFiles kFirstVersion = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kSecondVersion = {"memory.max", "memory.current", {"inactive_file", "active_file"}};

std::optional<std::uint64_t> NumberIn(const std::string& path) {
  std::uint64_t number = 0;
  if (!absl::SimpleAtoi(TextOf(path), &number)) return std::nullopt;
  return number;
}

// The number behind a name, in a file with one such pair in a line.
std::optional<std::uint64_t> NumberOf(absl::string_view name, const std::string& path) {
  const std::string text = TextOf(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    std::uint64_t number = 0;
    if (words.size() >= 2 && words[0] == name && absl::SimpleAtoi(words[1], &number)) return number;
  }
  return std::nullopt;
}

const GroupFiles& FilesOf(const ControlGroup& group) {
  return group.is_version_2 ? kSecondVersion : kFirstVersion;
}

// Without a limit version 2 says "max", and version 1 some 2^63.
std::optional<std::uint64_t> LimitOf(const ControlGroup& group) {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;
  const std::optional<std::uint64_t> limit = NumberIn(absl::StrCat(group.folder, FilesOf(group).limit));
  return limit.value_or(kNoLimit) < kNoLimit ? limit : std::nullopt;
}

std::uint64_t UsedOf(const ControlGroup& group) {
  std::uint64_t used = NumberIn(absl::StrCat(group.folder, FilesOf(group).usage)).value_or(0);
  for (const absl::string_view pages : FilesOf(group).file_pages) {
    used -= std::min(used, NumberOf(pages, absl::StrCat(group.folder, "memory.stat")).value_or(0));
  }
  return used;
}

}  // namespace

std::uint64_t AvailableMemory(const std::string& proc, const std::string& sys) {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  if (const auto kibibytes = NumberOf("MemAvailable:", proc + "/meminfo"); kibibytes.has_value()) {
    available = *kibibytes << 10;
  }
  for (const ControlGroup& group : ControlGroupsOf("memory", proc, sys)) {
    const std::optional<std::uint64_t> limit = LimitOf(group);
    if (limit.has_value()) available = std::min(available, *limit - std::min(*limit, UsedOf(group)));
  }
  return available;
}

std::optional<std::uint64_t> ControlGroupLimit(const std::string& proc, const std::string& sys) {
  std::optional<std::uint64_t> least;
  for (const ControlGroup& group : ControlGroupsOf("memory", proc, sys)) {
    const std::optional<std::uint64_t> limit = LimitOf(group);
    if (limit.has_value()) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

}  // namespace warpfold
