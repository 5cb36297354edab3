// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/system_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

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

struct Group {
  std::string folder;
  GroupFiles files;
};

// The text of the file, which is empty if the file is not there.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

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

// The groups that the process is in, and those above them, whose limits are theirs, too.
std::vector<Group> GroupsOf(const std::string& proc, const std::string& sys) {
  std::vector<Group> groups;
  const std::string text = TextOf(proc + "/self/cgroup");
  // A line is "number:controllers:path"; version 2 has the number 0 and no controllers.
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    const bool is_second = fields[0] == "0" && fields[1].empty();
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (!is_second && std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) {
      continue;
    }
    const std::string root = absl::StrCat(sys, "/fs/cgroup", is_second ? "" : "/memory");
    // In a container the path may be one of the host's, of which only the root is there.
    absl::string_view path = fields[2];
    while (true) {
      while (absl::EndsWith(path, "/")) path.remove_suffix(1);
      groups.push_back({absl::StrCat(root, path, "/"), is_second ? kSecondVersion : kFirstVersion});
      if (path.empty()) break;
      path = path.substr(0, path.rfind('/'));
    }
  }
  return groups;
}

// Without a limit version 2 says "max", and version 1 some 2^63.
std::optional<std::uint64_t> LimitOf(const Group& group) {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;
  const std::optional<std::uint64_t> limit = NumberIn(absl::StrCat(group.folder, group.files.limit));
  return limit.value_or(kNoLimit) < kNoLimit ? limit : std::nullopt;
}

std::uint64_t UsedOf(const Group& group) {
  std::uint64_t used = NumberIn(absl::StrCat(group.folder, group.files.usage)).value_or(0);
  for (const absl::string_view pages : group.files.file_pages) {
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
  for (const Group& group : GroupsOf(proc, sys)) {
    const std::optional<std::uint64_t> limit = LimitOf(group);
    if (limit.has_value()) available = std::min(available, *limit - std::min(*limit, UsedOf(group)));
  }
  return available;
}

std::optional<std::uint64_t> ControlGroupLimit(const std::string& proc, const std::string& sys) {
  std::optional<std::uint64_t> least;
  for (const Group& group : GroupsOf(proc, sys)) {
    const std::optional<std::uint64_t> limit = LimitOf(group);
    if (limit.has_value()) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

}  // namespace warpfold
