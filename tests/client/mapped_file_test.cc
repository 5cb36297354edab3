// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that are not what they were when they were mapped.
#include "client/cli/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace warpfold::cli {
namespace {

using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1 << 20;

  MappedFileTest() { SurviveShortenedFiles(); }

  std::string File(const std::string& name) {
    const std::string path = testing::TempDir() + "/" + name + std::to_string(getpid());
    std::ofstream(path) << std::string(kBytes, 'x');
    return path;
  }
};

TEST_F(MappedFileTest, TheOneThatWasCutIsBlamed) {
  const std::string whole_path = File("whole");
  const std::string cut_path = File("cut");
  const absl::StatusOr<MappedFile> whole = MappedFile::Open(whole_path);
  const absl::StatusOr<MappedFile> cut = MappedFile::Open(cut_path);
  ASSERT_TRUE(whole.ok() && cut.ok());
  std::filesystem::resize_file(cut_path, 4096);
  EXPECT_EQ(cut->bytes().front(), std::byte{'x'});
  EXPECT_EQ(cut->bytes().back(), std::byte{0});
  EXPECT_TRUE(whole->CheckWhole().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(cut->CheckWhole()));
  // What has been read was not its bytes, though it is as long as before.
  std::filesystem::resize_file(cut_path, kBytes);
  EXPECT_TRUE(whole->CheckWhole().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(cut->CheckWhole()));
}

TEST_F(MappedFileTest, OneThatWasCutWithinItsLastPageIsBlamed) {
  const std::string path = File("page");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CheckWhole().ok());
  std::filesystem::resize_file(path, kBytes - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(file->CheckWhole()));
}

TEST_F(MappedFileTest, OnlyAFileThatCanBeReadIsEmpty) {
  EXPECT_THAT(std::string(MappedFile::Open("/proc/self/mem").status().message()), HasSubstr("cannot read"));
  EXPECT_THAT(std::string(MappedFile::Open("/proc/self/status").status().message()), HasSubstr("size"));
  const std::string path = File("empty");
  std::filesystem::resize_file(path, 0);
  const absl::StatusOr<MappedFile> empty = MappedFile::Open(path);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->bytes().empty());
}

}  // namespace
}  // namespace warpfold::cli
