// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the control groups that this process is in say what they limit (cgroups(7)).
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace warpfold {

struct ControlGroup {
  std::string folder;  // of its files, with a slash at the end
  bool is_version_2;   // version 2, whose files have other names than those of version 1
};

// The groups of a controller, such as "memory", that the process is in, and those above them, whose limits
// are its own, too. `proc` and `sys` stand for /proc and /sys in tests.
std::vector<ControlGroup> ControlGroupsOf(absl::string_view controller, const std::string& proc,
                                          const std::string& sys);

// The text of the file, which is empty if the file is not there.
std::string TextOf(const std::string& path);

}  // namespace warpfold
