// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A mapped file that is shorter than its map: its call gets this error, and no other call does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <vector>

#include "client/calls/lent_memory.h"
#include "client/calls/reducer.h"
#include "client/calls/retry.h"
#include "client/client.h"
#include "client/connections/status.h"
#include "client/connections/targets.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

constexpr std::size_t kBytes = 8 << 20;

// A file's mapping, of which the file has lost everything after the first `left` bytes.
class CutMap {
 public:
  CutMap(std::size_t bytes, std::size_t left) : bytes_(bytes) {
    const int fd = memfd_create("cut", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    address_ = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(address_, MAP_FAILED);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(left)), 0);
    close(fd);
  }
  ~CutMap() { munmap(address_, bytes_); }
  CutMap(const CutMap&) = delete;
  CutMap& operator=(const CutMap&) = delete;

  std::span<const std::int32_t> array() const {
    return {static_cast<const std::int32_t*>(address_), bytes_ / sizeof(std::int32_t)};
  }

 private:
  const std::size_t bytes_;
  void* address_ = nullptr;
};

class CutFileTest : public testing::Test {
 protected:
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 1}};
  CutMap map_{kBytes, 0};
};

// gRPC ends the connection for which it could not read, and the next call is made at once.
TEST_F(CutFileTest, TheNextCallIsToldNothingOfIt) {
  const std::vector<std::int32_t> whole(5, 1);
  for (int i = 0; i < 100; ++i) {
    const absl::Status cut = client_.Reduce(kSum, map_.array(), {.streams = 1}).status();
    ASSERT_TRUE(absl::IsInvalidArgument(cut)) << cut;
    const auto sum = client_.Reduce(kSum, whole, {.streams = 1});
    ASSERT_TRUE(sum.ok()) << i << ": " << sum.status();
    ASSERT_EQ(*sum, 5);
  }
}

// The connection ends for its other calls, too. Their memory is there, and so they may be made again.
TEST_F(CutFileTest, ACallOnTheSameConnectionIsNotBlamed) {
  auto writer = client_.OpenWriter({.operators = {"sum"}}, ElementType::kInt32, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<std::int32_t> piece(1 << 20, 1);
  ASSERT_TRUE(writer->Write(std::as_bytes(std::span(piece))).ok());
  ASSERT_TRUE(writer->Flush().ok());
  ASSERT_TRUE(absl::IsInvalidArgument(client_.Reduce(kSum, map_.array(), {.streams = 1}).status()));
  const absl::Status status = writer->Commit().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// The shares at the array's beginning are there, but the array is not.
TEST_F(CutFileTest, AnArrayInSharesIsBlamedAsAWhole) {
  const CutMap half(64 << 20, 32 << 20);
  Client client(server_.target(), {.connections = 4});
  for (int i = 0; i < 10; ++i) {
    const absl::Status status = client.Reduce(kSum, half.array(), {.streams = 4}).status();
    ASSERT_TRUE(absl::IsInvalidArgument(status)) << i << ": " << status;
  }
}

// A call that is not at fault goes to the same server, once there is a connection again.
TEST_F(CutFileTest, ItsServerIsNotLeftOut) {
  FakeService other;
  const FakeServer other_server{other};
  const ClientOptions options = {.connections = 1};
  Targets targets({server_.target(), other_server.target()}, options);
  RetryLoop retry(targets, 0, options, absl::Now() + absl::Seconds(30), {});
  ASSERT_FALSE(retry.connection().IsReady());
  ASSERT_TRUE(retry.Again(FromGrpc({grpc::StatusCode::UNAVAILABLE, "Bad address"}), {}));
  EXPECT_FALSE(targets.IsLeftOut(0, absl::Now()));
  EXPECT_TRUE(retry.connection().IsReady());
}

TEST_F(CutFileTest, PartsAndSmallArraysAreBlamed) {
  const auto bytes = std::as_bytes(map_.array());
  const absl::Status part =
      client_.ReducePart({.operators = {"sum"}}, ElementType::kInt32, 0, {&bytes, 1}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(part)) << part;
  const absl::Status small = client_.Reduce(kSum, map_.array().first(100)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(small)) << small;
}

TEST_F(CutFileTest, PartsOfSeveralPiecesAreBlamed) {
  const std::vector<std::int32_t> whole(kBytes / sizeof(std::int32_t), 1);
  const std::span<const std::byte> good = std::as_bytes(std::span(whole));
  const std::span<const std::byte> bad = std::as_bytes(map_.array());
  for (const auto& pieces : {std::vector{good, bad}, std::vector{bad, good}}) {
    const absl::Status status =
        client_.ReducePart({.operators = {"sum"}}, ElementType::kInt32, 0, pieces).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

TEST(CanBeReadTest, LooksAtTheEnd) {
  const std::vector<std::byte> heap(100'000);
  EXPECT_TRUE(CanBeRead(heap));
  EXPECT_TRUE(CanBeRead({}));
  EXPECT_FALSE(CanBeRead(std::as_bytes(CutMap(1 << 20, 0).array())));
  EXPECT_FALSE(CanBeRead(std::as_bytes(CutMap(1 << 20, (1 << 20) - 4096).array())));
  // The rest of the last page is zeros, which the system reads.
  EXPECT_TRUE(CanBeRead(std::as_bytes(CutMap(1 << 20, (1 << 20) - 4000).array())));
}

TEST(BlameSourceTest, IsOnlyOfMemoryThatCannotBeRead) {
  const CutMap map(1 << 20, 0);
  const std::vector<std::byte> heap(10);
  const absl::Status broken = FromGrpc({grpc::StatusCode::UNAVAILABLE, "Bad address"});
  EXPECT_TRUE(CouldNotRead(broken)) << broken;
  EXPECT_TRUE(absl::IsInvalidArgument(BlameSource(broken, SourceOf(std::as_bytes(map.array())))));
  EXPECT_EQ(BlameSource(broken, SourceOf(heap)), broken);
  EXPECT_EQ(BlameSource(broken, {}), broken);
  const absl::Status other = FromGrpc({grpc::StatusCode::UNAVAILABLE, "Connection reset by peer"});
  EXPECT_FALSE(CouldNotRead(other));
  EXPECT_EQ(BlameSource(other, SourceOf(std::as_bytes(map.array()))), other);
}

}  // namespace
}  // namespace warpfold
