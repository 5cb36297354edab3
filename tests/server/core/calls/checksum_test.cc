// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Checksums of chunks and of the whole stream: those that are announced are checked, and nothing else.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "proto/crc32c.h"
#include "server/core/calls/reduce_session.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

class ChecksumTest : public testing::Test {
 protected:
  ChecksumTest() : service_(backend_, Limits(), [] { return absl::UnixEpoch(); }) {
    std::vector<std::int32_t> elements(30000);
    std::iota(elements.begin(), elements.end(), 1);
    data_.assign(reinterpret_cast<const char*>(elements.data()), elements.size() * 4);
    whole_ = proto::ComputeCrc32c(AsBytes(data_));
  }

  static v1::ReduceRequest HeaderOf(bool with_crc32c) {
    v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
    header.mutable_header()->set_with_crc32c(with_crc32c);
    return header;
  }

  // The data in three chunks; those in `checked` (a bit for each) carry their own checksum.
  std::vector<v1::ReduceRequest> Chunks(unsigned checked) const {
    std::vector<v1::ReduceRequest> chunks;
    for (const ByteSlice piece : Cut(data_, {10'001, 90'003})) {
      chunks.push_back(Chunk(piece.data(), piece.size()));
      if ((checked >> (chunks.size() - 1) & 1) != 0) {
        chunks.back().mutable_chunk()->set_crc32c(proto::ComputeCrc32c(piece));
      }
    }
    return chunks;
  }

  absl::Status Send(const v1::ReduceRequest& header, const std::vector<v1::ReduceRequest>& chunks,
                    std::optional<std::uint32_t> crc32c) {
    std::vector<Message> messages = {MessageOf(header)};
    for (const v1::ReduceRequest& chunk : chunks) {
      const std::string bytes = chunk.SerializeAsString();
      messages.push_back(MessageOf(bytes, {bytes.size() / 3}));
    }
    v1::ReduceRequest commit = Commit(data_.size() / 4, data_.size());
    if (crc32c.has_value()) commit.mutable_commit()->set_crc32c(*crc32c);
    messages.push_back(MessageOf(commit));
    const absl::StatusOr<v1::Reduction> reduction = DriveSession(service_, pool_, messages);
    if (reduction.ok()) {
      EXPECT_EQ(reduction->results(0).int64_value(), 30000LL * 30001 / 2);
    }
    EXPECT_EQ(pool_.free(), pool_.size());
    return reduction.status();
  }

  static void ExpectField(const absl::Status& status, const std::string& reason, const std::string& field) {
    EXPECT_EQ(kernels::ErrorReason(status), reason) << status;
    EXPECT_EQ(kernels::ErrorDetails(status), (kernels::ErrorMetadata{{"field", field}}));
  }

  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
  std::string data_;
  std::uint32_t whole_ = 0;
};

TEST_F(ChecksumTest, AnnouncedAndMatching) {
  for (unsigned checked = 0; checked < 8; ++checked) {
    EXPECT_TRUE(Send(HeaderOf(true), Chunks(checked), whole_).ok()) << checked;
  }
}

TEST_F(ChecksumTest, AnnouncedAndWrong) {
  for (unsigned checked = 0; checked < 8; ++checked) {
    const absl::Status status = Send(HeaderOf(true), Chunks(checked), whole_ ^ 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    ExpectField(status, "CHECKSUM_MISMATCH", "commit.crc32c");
  }
}

TEST_F(ChecksumTest, AnnouncedAndMissing) {
  for (const unsigned checked : {0, 7}) {
    const absl::Status status = Send(HeaderOf(true), Chunks(checked), std::nullopt);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    ExpectField(status, "BAD_HEADER", "with_crc32c");
  }
}

TEST_F(ChecksumTest, NotAnnouncedButThere) {
  for (const unsigned checked : {0, 7}) {
    ExpectField(Send(HeaderOf(false), Chunks(checked), whole_), "BAD_HEADER", "with_crc32c");
  }
}

TEST_F(ChecksumTest, ChunksMayCarryTheirsUnannounced) {
  for (unsigned checked = 0; checked < 8; ++checked) {
    EXPECT_TRUE(Send(HeaderOf(false), Chunks(checked), std::nullopt).ok()) << checked;
  }
}

TEST_F(ChecksumTest, EachWrongChunkIsFound) {
  for (const bool announced : {false, true}) {
    std::optional<std::uint32_t> crc32c;
    if (announced) crc32c = whole_;
    for (std::size_t wrong = 0; wrong < 3; ++wrong) {
      std::vector<v1::ReduceRequest> chunks = Chunks(7);
      chunks[wrong].mutable_chunk()->set_crc32c(chunks[wrong].chunk().crc32c() ^ 0x80000000);
      ExpectField(Send(HeaderOf(announced), chunks, crc32c), "CHECKSUM_MISMATCH", "chunk.crc32c");
    }
  }
}

// The chunks' own checksums are right, but they are not those of the bytes that the client sums up.
TEST_F(ChecksumTest, ChunksThatChangePlacesAreFound) {
  for (const unsigned checked : {0, 7}) {
    std::vector<v1::ReduceRequest> chunks = Chunks(checked);
    std::swap(chunks[1], chunks[2]);
    ExpectField(Send(HeaderOf(true), chunks, whole_), "CHECKSUM_MISMATCH", "commit.crc32c");
  }
}

TEST_F(ChecksumTest, OfNothing) {
  data_.clear();
  v1::ReduceRequest empty = Chunk("", 0);
  empty.mutable_chunk()->set_crc32c(0);
  v1::ReduceRequest commit = Commit(0, 0);
  commit.mutable_commit()->set_crc32c(0);
  const auto send = [&](const v1::ReduceRequest& chunk) {
    return DriveSession(service_, pool_, {MessageOf(HeaderOf(true)), MessageOf(chunk), MessageOf(commit)})
        .status();
  };
  EXPECT_TRUE(send(empty).ok());
  empty.mutable_chunk()->set_crc32c(1);
  ExpectField(send(empty), "CHECKSUM_MISMATCH", "chunk.crc32c");
}

}  // namespace
}  // namespace warpfold::server
