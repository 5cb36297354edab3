// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a call that sends files ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client/cli/files.h"
#include "client/connections/connection.h"
#include "tests/client/cli/zip_file.h"
#include "tests/client/fake_service.h"
#include "tests/temporary_folder.h"

namespace warpfold::cli {
namespace {

class CliFilesTest : public testing::Test {
 protected:
  // One file of this content, which holds elements.
  FilesInput InputOf(const std::string& content) const {
    std::ofstream(path_) << content;
    // So that a write within the same tick of the system's clock gives the file another time.
    std::filesystem::last_write_time(path_,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    absl::StatusOr<MappedFile> file = MappedFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    FilesInput files;
    files.pieces.emplace_back(path_, *std::move(file));
    FilePiece& piece = files.pieces.back();
    piece.data = piece.file.bytes();
    piece.byte_count = piece.data.size();
    return files;
  }

  // Likewise a member, `content` as it lies in the archive.
  FilesInput MemberOf(const std::string& content, const std::string& elements) const {
    FilesInput files = InputOf(content);
    FilePiece& piece = files.pieces.back();
    piece.member = NpzMember{.packed = content != elements,
                             .bytes = piece.data,
                             .byte_count = elements.size(),
                             .crc32 = static_cast<std::uint32_t>(ChecksumOf(elements))};
    piece.byte_count = elements.size();
    return files;
  }

  // The file's last byte becomes another one.
  void Overwrite() const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file << 'y';
  }

  static void ExpectChanged(const Outcome& outcome) {
    EXPECT_EQ(std::string(outcome.input_error.message()), "the file changed while it was read");
    EXPECT_FALSE(outcome.bad_input.empty());
  }

  Outcome Reduce(const FilesInput& files, const CallOptions& options) {
    return ReduceFiles(client_, {.operators = {"sum"}}, ElementType::kInt32, files, options);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.Path("file");
  FakeService service_;
  const FakeServer server_{service_};
  Client client_{server_.target(), {.max_attempts = 1}};
};

// The file is as long as before, and no signal has reported a missing page: gRPC's message is the only
// evidence.
TEST_F(CliFilesTest, AFileThatTheSystemCouldNotReadIsAtFault) {
  bool is_cut = true;
  service_.on_start = [&](int, grpc::ServerContext&) {
    if (is_cut) {
      std::filesystem::resize_file(path_, 0);
      std::filesystem::resize_file(path_, 1 << 20);
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Bad address");
  };
  const Outcome outcome = Reduce(InputOf(std::string(1 << 20, 'x')), {});
  EXPECT_TRUE(absl::IsInvalidArgument(outcome.input_error)) << outcome.input_error;
  EXPECT_FALSE(outcome.bad_input.empty());
  is_cut = false;
  const Outcome of_server = Reduce(InputOf(std::string(1 << 20, 'x')), {});
  EXPECT_TRUE(of_server.input_error.ok()) << "a server may say so, too: " << of_server.input_error;
  EXPECT_TRUE(absl::IsUnavailable(of_server.reduction.status()));
}

TEST_F(CliFilesTest, TheCallersKeepGoingIsAskedWhereMembersAreUnpacked) {
  const std::string elements(1 << 20, 'x');
  const FilesInput files = MemberOf(Deflated(elements), elements);
  // So long that keep_going is called.
  service_.on_commit = [](const SeenCall&, grpc::ServerContext&) {
    absl::SleepFor(4 * kAskedEvery);
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Reduce(files, {.keep_going = [] { return true; }}).reduction.ok());
  const Outcome outcome = Reduce(files, {.keep_going = [] { return false; }});
  EXPECT_TRUE(outcome.input_error.ok()) << outcome.input_error;
  EXPECT_TRUE(absl::IsCancelled(outcome.reduction.status())) << outcome.reduction.status();
}

// The server has the elements as they were, and its result is right for them; but it could have had both.
TEST_F(CliFilesTest, AFileThatIsWrittenToMeanwhileHasNoValue) {
  const std::string elements(1 << 20, 'x');
  service_.on_commit = [this](const SeenCall&, grpc::ServerContext&) {
    Overwrite();
    return grpc::Status::OK;
  };
  ExpectChanged(Reduce(InputOf(elements), {}));
  ExpectChanged(Reduce(MemberOf(elements, elements), {}));
  ExpectChanged(Reduce(MemberOf(Deflated(elements), elements), {}));
}

// The first attempt had the old elements, and the next one had new ones after them.
TEST_F(CliFilesTest, NorHasOneThatIsWrittenToBetweenTwoAttempts) {
  Client patient(server_.target(), {.backoff = absl::Milliseconds(1)});
  service_.on_start = [this](int call, grpc::ServerContext&) {
    if (call > 0) return grpc::Status::OK;
    Overwrite();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not yet");
  };
  ExpectChanged(ReduceFiles(patient, {.operators = {"sum"}}, ElementType::kInt32,
                            InputOf(std::string(1 << 10, 'x')), {}));
  EXPECT_EQ(service_.calls().size(), 1u);
}

TEST_F(CliFilesTest, AnArchiveThatIsWrittenToIsNotCalledDamaged) {
  const std::string elements(1 << 20, 'x');
  const FilesInput stored = MemberOf(elements, elements);
  Overwrite();
  ExpectChanged(Reduce(stored, {}));
  const FilesInput packed = MemberOf(Deflated(elements), elements);
  Overwrite();
  ExpectChanged(Reduce(packed, {}));
}

TEST_F(CliFilesTest, AServerThatFailsIsNotMistakenForAFileThatGrows) {
  service_.on_start = [](int, grpc::ServerContext&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not here");
  };
  const FilesInput files = InputOf(std::string(1 << 10, 'x'));
  Overwrite();
  const Outcome outcome = Reduce(files, {});
  EXPECT_TRUE(outcome.input_error.ok()) << outcome.input_error;
  EXPECT_TRUE(absl::IsUnavailable(outcome.reduction.status())) << outcome.reduction.status();
}

}  // namespace
}  // namespace warpfold::cli
