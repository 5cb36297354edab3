// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A folder for one test, which is deleted with everything that lies in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace warpfold {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = std::filesystem::path(testing::TempDir()) / "warpfold_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr) << path;
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The path of a file or socket of this name in the folder.
  std::string Path(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace warpfold
