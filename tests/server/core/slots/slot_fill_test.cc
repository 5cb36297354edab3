// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/slot_fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tests/server/fake_slot.h"

namespace warpfold::server {
namespace {

// Records what it was started on.
class RecordingSlot : public FakeSlot {
 public:
  using FakeSlot::FakeSlot;

  absl::Status StartPieces(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const kernels::HostPiece> pieces) override {
    for (const kernels::HostPiece piece : pieces) {
      sizes_.push_back(piece.size());
      bytes_.insert(bytes_.end(), piece.begin(), piece.end());
    }
    return FakeSlot::StartPieces(reduction, first_element, element_count, pieces);
  }

  const std::vector<std::size_t>& sizes() const { return sizes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::size_t> sizes_;  // of the pieces
  std::vector<std::byte> bytes_;    // of all of them
};

// Its staging buffer lies where the test says.
class NeighbourSlot : public RecordingSlot {
 public:
  NeighbourSlot(FakeBehaviour& behaviour, std::span<std::byte> staging)
      : RecordingSlot(behaviour, staging.size(), 0), staging_(staging) {}
  std::span<std::byte> staging() override { return staging_; }

 private:
  const std::span<std::byte> staging_;
};

kernels::ReductionPlan SumOfBytes() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kUint8;
  return kernels::ReductionPlan::Create(spec).value();
}

class FillingTest : public testing::Test {
 protected:
  FillingTest() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 7 + i / 256);
    behaviour_.piece_memory = PieceMemory();
  }

  // The device must not read the end of memory_.
  ByteSlice PieceMemory() const { return ByteSlice(memory_).first(kReadable); }
  ByteSlice Bytes(std::size_t begin, std::size_t count) const {
    return ByteSlice(memory_).subspan(begin, count);
  }

  void Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) {
    expected_.insert(expected_.end(), bytes.begin(), bytes.end());
    ASSERT_EQ(fill_.Append(bytes, owner), bytes.size());
  }

  // Starts the slot, and returns the sizes of the pieces on which it was started.
  std::vector<std::size_t> Started() {
    EXPECT_EQ(fill_.bytes(), expected_.size());
    EXPECT_TRUE(fill_.Start(SumOfBytes(), 0).ok());
    EXPECT_TRUE(slot_.bytes() == expected_);
    EXPECT_EQ(behaviour_.misuses, 0);
    return slot_.sizes();
  }

  static constexpr std::size_t kReadable = 60'000;
  static constexpr std::size_t kLeast = SlotFill::kMinPieceBytes;

  std::array<std::byte, 64'000> memory_;
  const std::shared_ptr<const void> message_ = std::make_shared<int>(1);
  const std::shared_ptr<const void> other_ = std::make_shared<int>(2);
  FakeBehaviour behaviour_;
  RecordingSlot slot_{behaviour_, 64 << 10, 0};
  SlotFill fill_{&slot_, 64 << 10};
  std::vector<std::byte> expected_;
};

TEST_F(FillingTest, WhatLiesBehindThePieceBelongsToItHoweverShort) {
  Append(Bytes(0, 5000), message_);
  Append(Bytes(5000, 4), message_);
  Append(Bytes(5004, 3000), message_);
  EXPECT_EQ(Started(), std::vector<std::size_t>({8004}));
}

TEST_F(FillingTest, NeighboursOfTwoOwnersAreTwoPieces) {
  Append(Bytes(0, 5000), message_);
  Append(Bytes(5000, 5000), other_);
  Append(Bytes(10'000, 5000), message_);
  EXPECT_EQ(Started(), std::vector<std::size_t>({5000, 5000, 5000}));
}

TEST_F(FillingTest, AShortNeighbourOfAnotherOwnerIsCopied) {
  Append(Bytes(0, 5000), message_);
  Append(Bytes(5000, kLeast - 1), other_);
  EXPECT_EQ(Started(), std::vector<std::size_t>({5000, kLeast - 1}));
  EXPECT_EQ(other_.use_count(), 1);
  EXPECT_EQ(message_.use_count(), 2);
}

TEST_F(FillingTest, BytesElsewhereAreAPieceIfThereAreEnoughOfThem) {
  Append(Bytes(0, 2000), message_);
  Append(Bytes(2004, kLeast), message_);
  Append(Bytes(1000, kLeast - 1), message_);
  EXPECT_EQ(slot_.staging()[2000 + kLeast], memory_[1000]);
  EXPECT_EQ(Started(), std::vector<std::size_t>({2000, kLeast, kLeast - 1}));
}

TEST_F(FillingTest, WhatTheDeviceCannotReadIsCopied) {
  Append(Bytes(kReadable - 2000, 2000), message_);
  Append(Bytes(kReadable, 2000), message_);
  EXPECT_EQ(slot_.staging()[2000], memory_[kReadable]);
  EXPECT_EQ(Started(), std::vector<std::size_t>({2000, 2000}));
}

TEST_F(FillingTest, CopiesAreNoPieceThatOthersBelongTo) {
  Append(Bytes(0, 2000), message_);
  Append(Bytes(3000, 10), message_);
  Append(Bytes(3010, 10), message_);
  Append(Bytes(3020, 2000), message_);
  EXPECT_EQ(Started(), std::vector<std::size_t>({2000, 20, 2000}));
}

// The backend knows the two as different memories.
TEST_F(FillingTest, AMessageThatLiesBehindTheStagingBufferIsAnotherPiece) {
  NeighbourSlot slot(behaviour_, std::span(memory_).first(2500));
  const ByteSlice readable = Bytes(2500, 7500);
  behaviour_.piece_memory = readable;
  SlotFill fill(&slot, 10'000);
  fill.Append(readable.subspan(5000, 2000), message_);
  fill.Append(Bytes(60'000, 500), nullptr);
  fill.Append(readable.first(2000), message_);
  EXPECT_TRUE(fill.Start(SumOfBytes(), 0).ok());
  EXPECT_EQ(slot.sizes(), std::vector<std::size_t>({2000, 500, 2000}));
}

TEST_F(FillingTest, TheOwnerIsHeldOnceForAllItsBytes) {
  for (std::size_t i = 0; i < 10; ++i) Append(Bytes(3000 * i, 3000), message_);
  EXPECT_EQ(message_.use_count(), 2);
  std::shared_ptr<const void> owners = fill_.TakeOwners();
  EXPECT_EQ(message_.use_count(), 2);
  owners.reset();
  EXPECT_EQ(message_.use_count(), 1);
}

TEST_F(FillingTest, ItIsFullWithAsManyPiecesAsASlotTakes) {
  SlotFill fill(&slot_, 2 * kLeast * kernels::Slot::kMaxPieces);
  for (std::size_t i = 0; i < kernels::Slot::kMaxPieces; ++i) {
    ASSERT_FALSE(fill.is_full()) << i;
    fill.Append(Bytes(0, kLeast), i % 2 == 0 ? message_ : other_);
  }
  EXPECT_TRUE(fill.is_full());
  EXPECT_LT(fill.bytes(), fill.capacity());
}

TEST_F(FillingTest, ATailIsCutOutOfAPieceOfManyParts) {
  for (std::size_t i = 0; i < 10; ++i) Append(Bytes(500 + 100 * i, 100), i == 0 ? nullptr : message_);
  Append(Bytes(2000, 3000), message_);
  Append(Bytes(5000, 100), message_);
  const std::vector<std::byte> tail = fill_.CutTail(150);
  expected_.erase(expected_.end() - 150, expected_.end());
  EXPECT_TRUE(std::ranges::equal(tail, Bytes(4950, 150)));
  EXPECT_EQ(Started(), std::vector<std::size_t>({1000, 2950}));
}

// As on a CPU, which has read them when the slot has been started.
TEST_F(FillingTest, ADeviceThatKeepsNoPiecesHoldsNoOwners) {
  behaviour_.keeps_pieces = false;
  Append(Bytes(0, 5000), message_);
  EXPECT_EQ(message_.use_count(), 2);
  EXPECT_EQ(Started(), std::vector<std::size_t>({5000}));
  EXPECT_EQ(fill_.TakeOwners(), nullptr);
}

TEST_F(FillingTest, OwnersAreLetGoWhereTheDeviceKeepsNoPieces) {
  behaviour_.keeps_pieces = false;
  Append(Bytes(0, 5000), message_);
  Append(Bytes(20'000, 100), nullptr);
  Append(Bytes(9'000, 2000), other_);
  fill_.LetOwnersGo();
  EXPECT_EQ(message_.use_count(), 1);
  EXPECT_EQ(other_.use_count(), 1);
  EXPECT_TRUE(std::ranges::equal(std::span(slot_.staging()).first(7100), expected_));
  const std::vector<std::byte> tail = fill_.CutTail(50);
  expected_.erase(expected_.end() - 50, expected_.end());
  EXPECT_TRUE(std::ranges::equal(tail, Bytes(10'950, 50)));
  Append(Bytes(30'000, 2000), message_);
  EXPECT_EQ(message_.use_count(), 2);
  EXPECT_EQ(Started(), std::vector<std::size_t>({7050, 2000}));
}

TEST_F(FillingTest, OwnersStayWhereTheDeviceKeepsPieces) {
  Append(Bytes(0, 5000), message_);
  fill_.LetOwnersGo();
  EXPECT_EQ(message_.use_count(), 2);
  EXPECT_EQ(Started(), std::vector<std::size_t>({5000}));
}

// All bytes belong to a segment that is not complete, and the segments before it are empty: a slot accepts no
// empty list of pieces.
TEST_F(FillingTest, SegmentsWithoutElementsAreLeftWhereAllBytesAreCutOff) {
  Append(Bytes(0, 4000), message_);
  EXPECT_TRUE(std::ranges::equal(fill_.CutTail(4000), Bytes(0, 4000)));
  const std::vector<std::uint64_t> lengths = {0, 0};
  ASSERT_TRUE(fill_.StartSegments(SumOfBytes(), {.segment_count = 2, .lengths = lengths}).ok());
  EXPECT_EQ(behaviour_.misuses, 0);
  EXPECT_EQ(behaviour_.piece_starts, 0);
}

}  // namespace
}  // namespace warpfold::server
