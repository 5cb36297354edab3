// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that have changed since they were mapped.
#include "client/cli/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace warpfold::cli {
namespace {

using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1 << 20;

  MappedFileTest() { SurviveShortenedFiles(); }

  std::string File(const std::string& name) {
    const std::string path = folder_.Path(name);
    std::ofstream(path) << std::string(kBytes, 'x');
    // So that a write within the same tick of the system's clock gives the file another time.
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    return path;
  }

  const TemporaryFolder folder_;
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
  // What has been read was not its bytes, though the file is as long as before.
  std::filesystem::resize_file(cut_path, kBytes);
  EXPECT_TRUE(whole->CheckWhole().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(cut->CheckWhole()));
}

// It may be the server's text.
TEST_F(MappedFileTest, OneThatCanBeReadIsNotBlamedForABadAddress) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(File("fine"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CheckWhole(absl::UnavailableError("Bad address")).ok());
}

TEST_F(MappedFileTest, OneThatWasCutWithinItsLastPageIsBlamed) {
  const std::string path = File("page");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CheckWhole().ok());
  std::filesystem::resize_file(path, kBytes - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(file->CheckWhole()));
}

TEST_F(MappedFileTest, OneThatWasWrittenToIsBlamed) {
  for (const auto mode : {std::ios::in | std::ios::out, std::ios::app}) {
    const std::string path = File("written");
    const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->CheckWhole().ok());
    std::fstream(path, std::ios::binary | mode) << 'y';  // over the first byte, or after the last
    const absl::Status status = file->CheckWhole();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("changed"));
  }
}

TEST_F(MappedFileTest, OneThatWasCutAndHasGrownAgainIsBlamedThoughNothingWasMissed) {
  const std::string path = File("grown");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, 0);
  std::ofstream(path) << std::string(kBytes, 'y');
  EXPECT_TRUE(absl::IsInvalidArgument(file->CheckWhole()));
}

// A change of only the inode affects nothing that is read.
TEST_F(MappedFileTest, OneThatHasANewNameOrModeIsNot) {
  const std::string path = File("renamed");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::rename(path, path + ".old");
  std::filesystem::permissions(path + ".old", std::filesystem::perms::owner_read);
  EXPECT_TRUE(file->CheckWhole().ok());
  std::filesystem::remove(path + ".old");
  EXPECT_TRUE(file->CheckWhole().ok());
}

TEST_F(MappedFileTest, AFailureThatDoesNotComeOfTheBytesStands) {
  const std::string path = File("growing");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::ofstream(path, std::ios::app) << 'y';
  EXPECT_TRUE(file->CheckWhole(absl::UnavailableError("no server")).ok());
  EXPECT_TRUE(file->CheckWhole(absl::DeadlineExceededError("late")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(file->CheckWhole(absl::DataLossError("another checksum"))));
  EXPECT_TRUE(absl::IsInvalidArgument(file->CheckWhole(absl::OutOfRangeError("an overflow"))));
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

TEST_F(MappedFileTest, AFileMayHaveOneByte) {
  const std::string path = File("byte");
  std::filesystem::resize_file(path, 1);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes().size(), 1u);
}

}  // namespace
}  // namespace warpfold::cli
