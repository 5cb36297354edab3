// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files like those of /proc and /sys that describe control groups.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace warpfold {

class ControlGroupTest : public testing::Test {
 protected:
  ControlGroupTest() { Clear(); }

  void Clear() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "proc/self");
  }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string proc() const { return (root_ / "proc").string(); }
  std::string sys() const { return (root_ / "sys").string(); }

 private:
  const TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "groups";
};

}  // namespace warpfold
