// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pieces of host memory are gathered on the device byte for byte, wherever each of them lies, however long it
// is and however it is aligned; and a slot that is started on pieces reduces or stores them.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/gatherer.h"
#include "kernels/devices.h"
#include "kernels/segment_row.h"
#include "kernels/segments.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels::cuda {
namespace {

constexpr std::size_t kSlotBytes = std::size_t{1} << 20;
constexpr std::size_t kMemoryBytes = 4 * kSlotBytes;
// These bytes, after the gathered ones, must stay as they are.
constexpr std::size_t kGuardBytes = 64;

// Random bytes in whole pages.
class Pages {
 public:
  Pages() : bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, kMemoryBytes)), std::free) {
    std::ranges::generate(all(), [this] { return static_cast<std::byte>(random_()); });
  }
  std::span<std::byte> all() const { return {bytes_.get(), kMemoryBytes}; }

  // Pieces of up to `longest` bytes, which together fill a slot or are as many as one start takes.
  std::vector<HostPiece> RandomPieces(std::size_t longest) {
    std::vector<HostPiece> pieces;
    for (std::size_t left = kSlotBytes; left > 0 && pieces.size() < Slot::kMaxPieces;) {
      const std::size_t bytes = std::min<std::size_t>(left, 1 + random_() % longest);
      pieces.push_back(all().subspan(random_() % (kMemoryBytes - bytes), bytes));
      left -= bytes;
    }
    return pieces;
  }

 private:
  std::mt19937 random_{7};  // NOLINT(cert-msc51-cpp): the same bytes on every run
  const std::unique_ptr<std::byte, void (*)(void*)> bytes_;
};

std::vector<std::byte> Concatenated(const std::vector<HostPiece>& pieces) {
  std::vector<std::byte> bytes;
  for (const HostPiece piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

class GatherTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaHostRegister(pages_.all().data(), kMemoryBytes, cudaHostRegisterMapped), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&target_), kSlotBytes + kGuardBytes), cudaSuccess);
    gatherer_ = Gatherer::Create(kSlotBytes, Slot::kMaxPieces).value();
  }
  void TearDown() override {
    cudaHostUnregister(pages_.all().data());
    cudaFree(target_);
  }

  std::span<std::byte> memory() const { return pages_.all(); }

  void ExpectGathered(const std::vector<HostPiece>& pieces) {
    constexpr int kGuard = 0x5a;
    std::vector<std::byte> expected = Concatenated(pieces);
    expected.insert(expected.end(), kGuardBytes, std::byte{kGuard});
    ASSERT_EQ(cudaMemset(target_, kGuard, kSlotBytes + kGuardBytes), cudaSuccess);
    ASSERT_EQ(gatherer_->Launch(pieces, target_, cudaStreamLegacy), cudaSuccess);
    std::vector<std::byte> gathered(expected.size());
    ASSERT_EQ(cudaMemcpy(gathered.data(), target_, gathered.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    const auto [differs, is] = std::ranges::mismatch(gathered, expected);
    ASSERT_TRUE(differs == gathered.end()) << "at byte " << differs - gathered.begin();
  }

  Pages pages_;
  std::byte* target_ = nullptr;
  std::unique_ptr<Gatherer> gatherer_;
};

TEST_F(GatherTest, EveryAlignmentOfSourceAndTarget) {
  for (std::size_t source = 0; source < 16; ++source) {
    for (std::size_t target = 0; target < 16; ++target) {
      std::vector<HostPiece> pieces;
      if (target > 0) pieces.push_back(memory().subspan(100'001, target));
      for (const std::size_t bytes : {1, 3, 15, 16, 17, 31, 4095, 16383, 16384, 16385, 40001}) {
        pieces.push_back(memory().subspan(200'000 + source, bytes));
      }
      ASSERT_NO_FATAL_FAILURE(ExpectGathered(pieces)) << source << " " << target;
    }
  }
}

TEST_F(GatherTest, PiecesOfAnyLength) {
  for (const std::size_t longest : {std::size_t{1}, std::size_t{40}, std::size_t{2'000}, std::size_t{17'000},
                                    std::size_t{70'000}, kSlotBytes}) {
    ASSERT_NO_FATAL_FAILURE(ExpectGathered(pages_.RandomPieces(longest))) << longest;
  }
}

TEST_F(GatherTest, PiecesAtTheEndsOfTheMemory) {
  for (const std::size_t bytes : {1, 17, 4097}) {
    ASSERT_NO_FATAL_FAILURE(ExpectGathered({memory().first(bytes), memory().last(bytes)}));
  }
}

TEST_F(GatherTest, MoreThanThereIsRoomForIsRefused) {
  const std::vector<HostPiece> pieces(2 * Slot::kMaxPieces, memory().first(1));
  EXPECT_EQ(gatherer_->Launch(pieces, target_, cudaStreamLegacy), cudaErrorInvalidValue);
}

// A backend with one slot, which takes pieces, and two operators over bytes.
class GatheringSlotTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string note;
    backend_ = MakeBackend("cuda:0", {.slots = 1, .slot_bytes = kSlotBytes}, &note).value();
    EXPECT_FALSE(slot().Reads(pages_.all()));
    ASSERT_TRUE(backend_->OpenPieces(pages_.all()).ok());
    EXPECT_TRUE(slot().Reads(pages_.all()));
    EXPECT_FALSE(slot().Reads({pages_.all().data(), kMemoryBytes + 1}));
    EXPECT_TRUE(slot().KeepsPieces());
  }
  Slot& slot() { return *backend_->slots().front(); }

  Pages pages_;
  std::unique_ptr<Backend> backend_;
  const ReductionPlan reduction_ = [] {
    ReductionSpec spec;
    spec.operators = {"sum", "min"};
    spec.element_type = ElementType::kUint8;
    return ReductionPlan::Create(spec).value();
  }();
};

TEST_F(GatheringSlotTest, ReducesPiecesAmongStagedBytes) {
  for (const std::size_t longest : {std::size_t{2'000}, std::size_t{70'000}, kSlotBytes}) {
    std::vector<HostPiece> pieces = pages_.RandomPieces(longest);
    const std::size_t staged = pieces.front().size();
    std::ranges::copy(pieces.front(), slot().staging().begin());
    pieces.front() = slot().staging().first(staged);
    const std::vector<std::byte> all = Concatenated(pieces);
    ASSERT_TRUE(slot().StartPieces(reduction_, 0, all.size(), pieces).ok());
    const absl::StatusOr<SlotResult> result = slot().Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    const PartialState expected = ReduceOnHost(reduction_, 0, all);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*result->state, expected));
  }
}

TEST_F(GatheringSlotTest, ReducesSegmentsOfPieces) {
  const SegmentLayout layout(reduction_);
  const std::vector<HostPiece> pieces = pages_.RandomPieces(5'000);
  const std::vector<std::byte> all = Concatenated(pieces);
  const SegmentCut cut = {.segment_count = 8, .length = kSlotBytes / 8};
  ASSERT_EQ(all.size(), kSlotBytes);
  ASSERT_TRUE(slot().StartSegmentPieces(reduction_, cut, pieces).ok());
  const absl::StatusOr<SegmentsResult> result = slot().WaitSegments();
  ASSERT_TRUE(result.ok()) << result.status();
  for (std::uint64_t segment = 0; segment < cut.segment_count; ++segment) {
    const auto data = std::span(all).subspan(segment * cut.length, cut.length);
    const SegmentRow row = RowOfSegment(layout, ReduceOnHost(reduction_, 0, data));
    for (std::size_t column = 0; column < row.values.size(); ++column) {
      EXPECT_EQ(result->values[column * cut.segment_count + segment], row.values[column]) << segment;
    }
  }
}

TEST_F(GatheringSlotTest, StoresPiecesAtAnyByteAndNothingBesideThem) {
  for (const std::uint64_t offset : {0, 1, 7, 15, 16, 33, 4'099}) {
    const std::vector<HostPiece> pieces = pages_.RandomPieces(20'000);
    std::vector<std::byte> expected(offset, std::byte{0});
    const std::vector<std::byte> all = Concatenated(pieces);
    expected.insert(expected.end(), all.begin(), all.end());
    expected.resize(expected.size() + 100);
    const std::unique_ptr<Memory> memory = backend_->Allocate(0, expected.size()).value();
    auto* const device = const_cast<std::byte*>(memory->data());
    ASSERT_EQ(cudaMemset(device, 0, expected.size()), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_TRUE(slot().StartStorePieces(*memory, offset, pieces).ok());
    ASSERT_TRUE(slot().Wait().ok());
    std::vector<std::byte> stored(expected.size());
    ASSERT_EQ(cudaMemcpy(stored.data(), device, stored.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_TRUE(stored == expected) << offset;
  }
}

}  // namespace
}  // namespace warpfold::kernels::cuda
