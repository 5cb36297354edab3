// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/control_groups.h"

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

namespace {

// In a container the path may be one of the host's, of which only the root is there.
void AddOnTheWayUp(const ControlGroup& root, absl::string_view path, std::vector<ControlGroup>& groups) {
  while (true) {
    while (absl::EndsWith(path, "/")) path.remove_suffix(1);
    groups.push_back({.folder = absl::StrCat(root.folder, path, "/"), .is_version_2 = root.is_version_2});
    if (path.empty()) return;
    path = path.substr(0, path.rfind('/'));
  }
}

}  // namespace

std::vector<ControlGroup> ControlGroupsOf(absl::string_view controller, const std::string& proc,
                                          const std::string& sys) {
  std::vector<ControlGroup> groups;
  const std::string text = TextOf(proc + "/self/cgroup");
  // A line is "number:controllers:path"; version 2 has the number 0 and no controllers.
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    const bool is_version_2 = fields[0] == "0" && fields[1].empty();
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (!is_version_2 && std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) {
      continue;
    }
    const std::string root = sys + "/fs/cgroup";
    if (is_version_2) {
      AddOnTheWayUp({.folder = root, .is_version_2 = true}, fields[2], groups);
      continue;
    }
    // Its folder has the name of all its controllers, and mostly links with that of each.
    for (const absl::string_view name : {controller, fields[1]}) {
      AddOnTheWayUp({.folder = absl::StrCat(root, "/", name), .is_version_2 = false}, fields[2], groups);
    }
  }
  return groups;
}

}  // namespace warpfold
