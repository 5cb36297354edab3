// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a call that sends files ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client/cli/files.h"
#include "client/connection.h"
#include "tests/client/fake_service.h"
#include "tests/client/zip_file.h"

namespace warpfold::cli {
namespace {

class CliFilesTest : public testing::Test {
 protected:
  // One file of this content, which holds elements.
  static FilesInput InputOf(const std::string& content) {
    const std::string path = testing::TempDir() + "/cli_files_test" + std::to_string(getpid());
    std::ofstream(path) << content;
    absl::StatusOr<MappedFile> file = MappedFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    FilesInput files;
    files.pieces.emplace_back(path, *std::move(file));
    FilePiece& piece = files.pieces.back();
    piece.data = piece.file.bytes();
    piece.byte_count = piece.data.size();
    return files;
  }

  Outcome Reduce(const FilesInput& files, const CallOptions& options) {
    return ReduceFiles(client_, {.operators = {"sum"}}, ElementType::kInt32, files, options);
  }

  FakeService service_;
  const FakeServer server_{service_};
  Client client_{server_.target(), {.max_attempts = 1}};
};

// The file is as long as before, and no signal has told of a missing page: gRPC's words are all there is.
TEST_F(CliFilesTest, AFileThatTheSystemCouldNotReadIsAtFault) {
  service_.on_start = [](int, grpc::ServerContext&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Bad address");
  };
  const Outcome outcome = Reduce(InputOf(std::string(1 << 20, 'x')), {});
  EXPECT_TRUE(absl::IsInvalidArgument(outcome.input_error)) << outcome.input_error;
  EXPECT_FALSE(outcome.bad_input.empty());
}

TEST_F(CliFilesTest, TheCallersKeepGoingIsAskedWhereMembersAreUnpacked) {
  const std::string elements(1 << 20, 'x');
  const std::string packed = Deflated(elements);
  FilesInput files = InputOf(packed);
  FilePiece& piece = files.pieces.back();
  piece.member = NpzMember{.packed = true,
                           .bytes = piece.data,
                           .byte_count = elements.size(),
                           .crc32 = static_cast<std::uint32_t>(ChecksumOf(elements))};
  piece.byte_count = elements.size();
  // So long that it is asked.
  service_.on_commit = [](const SeenCall&, grpc::ServerContext&) {
    absl::SleepFor(4 * kAskedEvery);
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Reduce(files, {.keep_going = [] { return true; }}).reduction.ok());
  const Outcome outcome = Reduce(files, {.keep_going = [] { return false; }});
  EXPECT_TRUE(outcome.input_error.ok()) << outcome.input_error;
  EXPECT_TRUE(absl::IsCancelled(outcome.reduction.status())) << outcome.reduction.status();
}

}  // namespace
}  // namespace warpfold::cli
