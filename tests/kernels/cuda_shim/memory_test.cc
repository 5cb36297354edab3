// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much memory the backend takes, and how it registers memory of others.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_slot.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/registration.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/tuning.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {
namespace {

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() { Shim::Get().Begin({}); }
  ~MemoryTest() override { Shim::Get().Begin({}); }
};

// A server adds this up before there are slots, and prints the sum as what it may take.
TEST_F(MemoryTest, ASlotTakesWhatIsCounted) {
  Fault fault;
  const std::span<const std::byte> no_pieces;
  for (const std::size_t slot_bytes : {std::size_t{64} << 10, kDefaultSlotBytes, std::size_t{64} << 20}) {
    const auto slot = MakeCudaSlot({}, slot_bytes, no_pieces, fault);
    ASSERT_TRUE(slot.ok()) << slot.status();
    const SlotMemory counted = MemoryOfSlot(slot_bytes);
    EXPECT_EQ(Shim::Get().BytesOf(Shim::Kind::kHostMemory), counted.host_bytes);
    EXPECT_EQ(Shim::Get().BytesOf(Shim::Kind::kDeviceMemory), counted.device_bytes);
    EXPECT_EQ((*slot)->host_bytes(), counted.host_bytes);
  }
}

// Ranges, in contrast, are reduced in place only if they begin at a whole vector.
TEST_F(MemoryTest, SegmentsAreReducedInPlaceWhereverTheyBegin) {
  const auto backend = MakeCudaBackend(std::array{0}, {.slots = 1, .slot_bytes = 64 << 10});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto kept = (*backend)->Allocate(0, 1 << 20);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kFloat32;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const Slot& slot = *(*backend)->slots().front();
  const std::uint64_t in_place = slot.CapacityFrom(reduction, **kept, 0);
  ASSERT_GT(in_place, slot.Capacity(reduction));
  for (const std::uint64_t element : {0, 1, 2, 3, 4}) {
    EXPECT_EQ(slot.SegmentElementsFrom(reduction, **kept, 4 * element), in_place) << element;
  }
  EXPECT_EQ(slot.SegmentElementsFrom(reduction, **kept, 2), slot.Capacity(reduction)) << "are copied first";
}

// Memory of the host with a place where one registered part ends and the next begins.
class MappedMemory {
 public:
  MappedMemory() : bytes_(kRegistrationBytes + (1 << 20)) {
    void* const pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) begin_ = static_cast<std::byte*>(pages);
  }
  ~MappedMemory() { munmap(begin_, bytes_); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::span<std::byte> all() { return {begin_, begin_ == nullptr ? 0 : bytes_}; }
  std::size_t end_of_first_part() const { return BytesOfRegistration(begin_); }

 private:
  const std::size_t bytes_;
  std::byte* begin_ = nullptr;
};

TEST_F(MemoryTest, WhatIsRegisteredInPartsIsReducedAcrossThem) {
  auto backend = MakeCudaBackend(std::array{0}, {.slots = 1, .slot_bytes = 64 << 10});
  ASSERT_TRUE(backend.ok()) << backend.status();
  MappedMemory memory;
  ASSERT_FALSE(memory.all().empty());
  const absl::StatusOr<std::unique_ptr<Memory>> registered = (*backend)->Register(memory.all());
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(Shim::Get().BytesOf(Shim::Kind::kRegistration), memory.all().size());
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kUint8;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  Slot& slot = *(*backend)->slots().front();
  const std::size_t boundary = memory.end_of_first_part();
  ASSERT_FALSE(Shim::Get().MayCopy(memory.all().data() + boundary - 1, 2)) << "there is none";
  const std::size_t begin = boundary > 5000 ? boundary - 5000 : 0;
  for (std::size_t i = 0; i < 10'000; ++i) memory.all()[begin + i] = static_cast<std::byte>(i % 251);
  ASSERT_TRUE(slot.StartFrom(reduction, 0, 10'000, **registered, begin).ok());
  const absl::StatusOr<SlotResult> result = slot.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < 10'000; ++i) expected += i % 251;
  EXPECT_EQ(result->state->Finish(0).value().entries.at(0).uint64_value, expected);
}

// Pairs of int64, of which the first and the last one overflow a sum.
std::vector<std::int64_t> PairsThatOverflow(std::uint64_t count) {
  std::vector<std::int64_t> pairs(2 * count);
  std::iota(pairs.begin(), pairs.end(), std::int64_t{0});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  pairs[0] = pairs[1] = pairs[2 * count - 2] = pairs[2 * count - 1] = kMost;
  return pairs;
}

// As many as the slot's room for elements has place for, and those that are few enough for the kernels to
// write them to the host, of which there are fewer if the slot is small.
TEST_F(MemoryTest, ResultsOfRowsInPlaceGoToMemory) {
  constexpr std::uint64_t kSlot = 64 << 10;
  constexpr std::uint64_t kOwn = kSlot / kSegmentResultShare;
  const auto backend = MakeCudaBackend(std::array{0}, {.slots = 1, .slot_bytes = kSlot});
  ASSERT_TRUE(backend.ok()) << backend.status();
  Slot& slot = *(*backend)->slots().front();
  const auto kept = (*backend)->Allocate(0, 1 << 20);
  ASSERT_TRUE(kept.ok()) << kept.status();
  std::vector<std::uint64_t> memory(kSlot / sizeof(std::uint64_t));
  const auto registered = (*backend)->Register(std::as_bytes(std::span(memory)), /*is_written=*/true);
  ASSERT_TRUE(registered.ok()) << registered.status();
  for (const std::vector<std::string>& operators :
       {std::vector<std::string>{"sum"}, std::vector<std::string>{"argmin", "sum"}}) {
    ReductionSpec spec;
    spec.operators = operators;
    spec.element_type = ElementType::kInt64;
    const ReductionPlan reduction = ReductionPlan::Create(spec).value();
    const std::size_t columns = SegmentLayout(reduction).columns().size();
    const std::uint64_t row = 8 * columns;
    ASSERT_EQ(slot.SegmentCapacityFrom(reduction, **kept, 0), kSlot / row);
    for (const std::uint64_t bytes :
         {kOwn - row, kOwn, kOwn + row, 2 * kOwn, 2 * kOwn + row, kSlot - row, kSlot}) {
      SCOPED_TRACE(testing::Message() << operators.size() << " operators, " << bytes);
      const std::uint64_t count = bytes / row;
      const std::vector<std::int64_t> pairs = PairsThatOverflow(count);
      std::memcpy(const_cast<std::byte*>((*kept)->data()), pairs.data(), pairs.size() * 8);
      const SegmentCut cut = {
          .segment_count = count, .length = 2, .results = {.values = memory.data(), .stride = count}};
      ASSERT_TRUE(slot.StartSegmentsFrom(reduction, cut, **kept, 0).ok());
      absl::StatusOr<SegmentsResult> result = slot.WaitSegments();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->values.empty(), count * row > kOwn)
          << "kernels write to the slot's memory of the host";
      if (result->values.empty()) result->values = std::span(memory).first(count * columns);
      const std::span<const std::uint64_t> sums = result->Column(columns - 1);
      for (std::uint64_t i = 0; i < count; ++i) {
        const bool fits = i != 0 && i + 1 != count;
        ASSERT_EQ(sums[i], fits ? 4 * i + 1 : 0) << i;
        if (operators.size() > 1) {
          ASSERT_EQ(result->Column(0)[i], static_cast<std::uint64_t>(pairs[2 * i])) << i;
        }
      }
      ASSERT_EQ(result->errors.size(), 2u);
      EXPECT_EQ(result->errors[0], (SegmentError{0, operators.size() - 1, Outcome::Error::kOverflow}));
      EXPECT_EQ(result->errors[1].segment, count - 1);
    }
    const SegmentCut too_many = {
        .segment_count = kSlot / row + 1, .length = 2, .results = {.values = memory.data(), .stride = kSlot}};
    EXPECT_TRUE(absl::IsInternal(slot.StartSegmentsFrom(reduction, too_many, **kept, 0)));
  }
}

// The elements after a range are reduced where they lie as well, since they, too, begin with a whole vector.
TEST_F(MemoryTest, RangesOfMatricesEndWithWholeVectors) {
  const auto reducer = DeviceReducer::Create(8 << 20);
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  for (std::uint32_t d = 1; d <= kMaxMatrixDimension; ++d) {
    for (const ElementType type : {ElementType::kUint32, ElementType::kUint64, ElementType::kFloat32}) {
      ReductionSpec spec;
      spec.operators = {"matrix_product"};
      spec.element_type = type;
      spec.shape = {d, d};
      const auto reduction = ReductionPlan::Create(spec);
      ASSERT_TRUE(reduction.ok()) << reduction.status();
      const std::uint64_t bytes = (*reducer)->Capacity(*reduction) * reduction->element_bytes();
      EXPECT_EQ(bytes % kVectorBytes, 0u) << d << " " << ElementTypeName(type);
      EXPECT_GT(bytes, std::uint64_t{7} << 20) << d << " " << ElementTypeName(type);
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels::shim
