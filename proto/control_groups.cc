// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace warpfold {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<ControlGroup> ControlGroupsOf(absl::string_view controller, const std::string& proc,
                                          const std::string& sys) {
  std::vector<ControlGroup> groups;
  const std::string text = TextOf(proc + "/self/cgroup");
  // A line is "number:controllers:path"; version 2 has the number 0 and no controllers.
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    const bool is_second = fields[0] == "0" && fields[1].empty();
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (!is_second && std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) {
      continue;
    }
    const std::string root = absl::StrCat(sys, "/fs/cgroup", is_second ? "" : absl::StrCat("/", controller));
    // In a container the path may be one of the host's, of which only the root is there.
    absl::string_view path = fields[2];
    while (true) {
      while (absl::EndsWith(path, "/")) path.remove_suffix(1);
      groups.push_back({.folder = absl::StrCat(root, path, "/"), .is_second = is_second});
      if (path.empty()) break;
      path = path.substr(0, path.rfind('/'));
    }
  }
  return groups;
}

}  // namespace warpfold
