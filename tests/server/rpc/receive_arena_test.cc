// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory into which gRPC receives: blocks belong to nobody else, arrays of a connection are reduced where
// they lie in them, and arrive in other memory if there is no block; whatever becomes of a call, its blocks
// come back.
#include "server/rpc/receive_arena.h"

#include <set>
#include <thread>

#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kBlocks = 96;

// All free blocks, taken from the others until they are given back.
class AllBlocks {
 public:
  explicit AllBlocks(ReceiveArena& arena) : arena_(arena) {
    while (std::byte* const block = arena_.Take()) blocks_.insert(block);
  }
  ~AllBlocks() {
    for (std::byte* const block : blocks_) arena_.Give(block);
  }
  const std::set<std::byte*>& blocks() const { return blocks_; }

 private:
  ReceiveArena& arena_;
  std::set<std::byte*> blocks_;
};

TEST(ReceiveArenaTest, BlocksFillItsMemory) {
  const auto arena = ReceiveArena::Create(kBlocks * ReceiveArena::kBlockBytes).value();
  const AllBlocks all(*arena);
  ASSERT_EQ(all.blocks().size(), kBlocks);
  const std::byte* expected = arena->memory().data();
  for (std::byte* const block : all.blocks()) {
    EXPECT_EQ(block, expected);
    std::memset(block, 1, ReceiveArena::kBlockBytes);
    expected += ReceiveArena::kBlockBytes;
  }
  EXPECT_EQ(expected, arena->memory().data() + arena->memory().size());
  EXPECT_EQ(arena->Take(), nullptr);
}

TEST(ReceiveArenaTest, WhatWasGivenBackLastComesFirst) {
  const auto arena = ReceiveArena::Create(kBlocks * ReceiveArena::kBlockBytes).value();
  std::byte* const first = arena->Take();
  std::byte* const second = arena->Take();
  arena->Give(second);
  arena->Give(first);
  EXPECT_EQ(arena->Take(), first);
  EXPECT_EQ(arena->Take(), second);
}

TEST(ReceiveArenaTest, NoBlockIsTwoThreads) {
  const auto arena = ReceiveArena::Create(kBlocks * ReceiveArena::kBlockBytes).value();
  std::atomic<int> clashes = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 24; ++thread) {
    threads.emplace_back([&arena, &clashes, mark = std::byte(thread + 1)] {
      for (int turn = 0; turn < 2000; ++turn) {
        std::vector<std::byte*> mine;
        for (int i = 0; i < 6; ++i) {
          std::byte* const block = arena->Take();
          if (block == nullptr) break;
          mine.push_back(block);
          *block = mark;
        }
        for (std::byte* const block : mine) {
          if (*block != mark) ++clashes;
          arena->Give(block);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(AllBlocks(*arena).blocks().size(), kBlocks);
}

TEST(ReceiveArenaTest, TooMuchIsRefused) {
  EXPECT_TRUE(absl::IsResourceExhausted(ReceiveArena::Create(std::size_t{1} << 60).status()));
}

// gRPC has an arena for the rest of the process.
ReceiveArena& Receiving() {
  static ReceiveArena* const arena = [] {
    auto made = ReceiveArena::Create(kBlocks * ReceiveArena::kBlockBytes).value();
    ReceiveArena* const used = made.get();
    UseForReceiving(std::move(made));
    return used;
  }();
  return *arena;
}

class ReceivingTest : public RpcTest {
 protected:
  void SetUp() override {
    if (!CanUseForReceiving()) GTEST_SKIP() << "this release of gRPC receives into its own memory";
    RpcTest::SetUp();
    EXPECT_TRUE(backend_.OpenPieces(Receiving().memory()).ok());
  }

  // Sums 0, 1, 2, ... that are sent in eight chunks of 1 MiB.
  void ExpectSum() {
    std::vector<std::int32_t> elements(std::size_t{1} << 18);
    std::vector<v1::ReduceRequest> requests = {Header({v1::OPERATOR_SUM})};
    std::int64_t sum = 0;
    for (std::int32_t next = 0; requests.size() < 9;) {
      for (std::int32_t& element : elements) sum += element = next++;
      requests.push_back(Chunk(elements));
    }
    requests.push_back(Commit(8 * elements.size(), 32 * elements.size()));
    const grpc::Status status = Reduce(requests);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response_.reduction().results(0).int64_value(), sum);
  }

  // Once no client is connected, gRPC holds no blocks for the next message.
  void ExpectBlocksBack() {
    stub_.reset();
    channel_.reset();
    server_->Drain(absl::ZeroDuration());
    server_.reset();
    Await([] { return AllBlocks(Receiving()).blocks().size() == kBlocks; });
  }
};

TEST_F(ReceivingTest, ArraysAreReducedWhereTheyWereReceived) {
  ExpectSum();
  // Some slots have fewer than a piece's bytes in blocks.
  EXPECT_GT(backend_.behaviour.piece_starts, backend_.behaviour.starts / 2);
  ExpectNothingHeld();
  ExpectBlocksBack();
}

TEST_F(ReceivingTest, WithoutABlockArraysAreCopied) {
  {
    const AllBlocks taken(Receiving());
    ASSERT_EQ(taken.blocks().size(), kBlocks);
    ExpectSum();
  }
  EXPECT_EQ(backend_.behaviour.piece_starts, 0);
  ExpectSum();
  EXPECT_GT(backend_.behaviour.piece_starts, 0);
  ExpectNothingHeld();
  ExpectBlocksBack();
}

// The device reads what it was given to the end; only then may another message arrive there.
TEST_F(ReceivingTest, BlocksStayWhileTheDeviceReadsThem) {
  ExpectSum();  // gRPC reads in large blocks only if much has come already
  const int piece_starts = backend_.behaviour.piece_starts;
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  writer->Write(Chunk(std::vector<std::int32_t>(std::size_t{1} << 18, 1)));
  Await([&] { return backend_.behaviour.working() > 0; });
  EXPECT_GT(backend_.behaviour.piece_starts, piece_starts);
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
  Await([&] { return server_->in_progress() == 0; });
  EXPECT_LT(AllBlocks(Receiving()).blocks().size(), kBlocks);
  backend_.behaviour.SetBlocked(false);
  Await([&] { return server_->slots().free == backend_.slots().size(); });
  ExpectSum();
  ExpectNothingHeld();
  ExpectBlocksBack();
}

}  // namespace
}  // namespace warpfold::server
