// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of every backend for results of segments that the caller wants in its own memory: they are the
// same as those that a slot returns, and nothing else is written. device_under_test.h says which device is
// tested.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/segments.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"

namespace warpfold::kernels {
namespace {

constexpr std::uint64_t kUntouched = 0x5a5a5a5a5a5a5a5a;

struct Free {
  void operator()(std::uint64_t* memory) const { std::free(memory); }
};

// Whole pages, as memory that clients register, from an address that is a multiple of `alignment`.
class Pages {
 public:
  explicit Pages(std::uint64_t values, std::uint64_t alignment = 4096)
      : bytes_((values * sizeof(std::uint64_t) + alignment - 1) / alignment * alignment),
        values_(static_cast<std::uint64_t*>(std::aligned_alloc(alignment, bytes_))) {
    std::ranges::fill(all(), kUntouched);
  }
  std::span<std::uint64_t> all() const { return {values_.get(), bytes_ / sizeof(std::uint64_t)}; }

 private:
  const std::uint64_t bytes_;
  const std::unique_ptr<std::uint64_t, Free> values_;
};

class SegmentResultsTest : public testing::Test {
 protected:
  SegmentResultsTest() {
    ReductionSpec spec;
    spec.operators = {"max", "argmax"};  // three columns
    spec.element_type = ElementType::kInt32;
    reduction_.emplace(ReductionPlan::Create(spec).value());
  }

  // Reduces segments of three elements, whose results go to columns of `stride` values that begin after one
  // value of the pages, and compares them with what the slot returns without columns.
  void ExpectSame(Slot& slot, std::uint64_t segments, std::uint64_t stride, const Pages& pages) {
    const std::vector<std::uint64_t> expected = Reduce(slot, segments, {});
    ASSERT_EQ(expected.size(), 3 * segments);
    const std::span<std::uint64_t> memory = pages.all();
    const std::vector<std::uint64_t> written =
        Reduce(slot, segments, {.values = memory.data() + 1, .stride = stride});
    if (written.empty()) {
      EXPECT_TRUE(std::ranges::equal(memory, InColumns(expected, stride, memory.size())));
    } else {
      EXPECT_EQ(written, expected);
      EXPECT_EQ(std::ranges::count(memory, kUntouched), std::ssize(memory));
    }
    std::ranges::fill(memory, kUntouched);
  }

  // The values that the slot returns of so many segments; none if it has written them to the columns.
  std::vector<std::uint64_t> Reduce(Slot& slot, std::uint64_t segments, const ResultColumns& columns) {
    Random random(segments);
    const std::vector<std::byte> data =
        RandomElements(ElementType::kInt32, 3 * segments, Flavour::kExtreme, random);
    std::ranges::copy(data, slot.staging().begin());
    const SegmentCut cut = {.segment_count = segments, .length = 3, .results = columns};
    EXPECT_TRUE(slot.StartSegments(*reduction_, cut).ok());
    const absl::StatusOr<SegmentsResult> result = slot.WaitSegments();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    return {result->values.begin(), result->values.end()};
  }

  // Memory of `size` values with these columns, which begin after one value.
  static std::vector<std::uint64_t> InColumns(std::span<const std::uint64_t> values, std::uint64_t stride,
                                              std::uint64_t size) {
    std::vector<std::uint64_t> memory(size, kUntouched);
    const std::size_t segments = values.size() / 3;
    for (std::size_t column = 0; column < 3; ++column) {
      std::ranges::copy(values.subspan(column * segments, segments),
                        memory.begin() + static_cast<std::ptrdiff_t>(1 + column * stride));
    }
    return memory;
  }

  // As many segments as a start may have.
  std::uint64_t Most(Slot& slot) const {
    return std::min(slot.SegmentCapacity(*reduction_), slot.staging().size() / 12);
  }
  // Also few, that a GPU's kernels write to the host themselves.
  std::vector<std::uint64_t> Numbers(Slot& slot) const { return {1, 100, Most(slot)}; }

  std::optional<ReductionPlan> reduction_;
};

TEST_F(SegmentResultsTest, AreTheSameInRegisteredMemory) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  Slot& slot = *backend->slots().front();
  for (const std::uint64_t segments : Numbers(slot)) {
    SCOPED_TRACE(segments);
    const std::uint64_t stride = segments + 5;
    const Pages pages(3 * stride + 1);
    const auto registered = backend->Register(std::as_bytes(pages.all()), /*is_written=*/true);
    ASSERT_TRUE(registered.ok()) << registered.status();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(slot, segments, stride, pages));
  }
}

// Memory is registered with a GPU in parts, at whose ends a copy must end, too. They lie at multiples of the
// largest number here (kRegistrationBytes in kernels/cuda/tuning.h).
TEST_F(SegmentResultsTest, ReachOverTheEndOfAPart) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr || SmallScale()) return;
  Slot& slot = *backend->slots().front();
  const std::uint64_t most = Most(slot);
  constexpr std::uint64_t kPartBytes = std::uint64_t{64} << 20;
  constexpr std::uint64_t kPart = kPartBytes / sizeof(std::uint64_t);
  const Pages pages(2 * kPart + 2 * most, kPartBytes);
  const auto registered = backend->Register(std::as_bytes(pages.all()), /*is_written=*/true);
  ASSERT_TRUE(registered.ok()) << registered.status();
  // The second column begins half a column before the end of a part.
  ASSERT_NO_FATAL_FAILURE(ExpectSame(slot, most, kPart - 1 - most / 2, pages));
}

// Memory of the backend's device, which a slot can store to and read from.
class DeviceMemory {
 public:
  DeviceMemory(Backend& backend, std::uint64_t values)
      : slot_(*backend.slots().front()), memory_(*backend.Allocate(0, values * sizeof(std::uint64_t))) {
    Store(std::vector<std::uint64_t>(values, kUntouched));
  }

  const Memory& memory() const { return *memory_; }
  ResultColumns From(std::uint64_t first, std::uint64_t stride) const {
    auto* const values = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(memory_->data()));
    return {.values = values + first, .stride = stride, .device = memory_->device()};
  }

  void Store(const std::vector<std::uint64_t>& values) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t count = std::min(bytes.size() - at, slot_.staging().size());
      std::ranges::copy(bytes.subspan(at, count), slot_.staging().begin());
      ASSERT_TRUE(slot_.StartStore(*memory_, at, count).ok());
      ASSERT_TRUE(slot_.Wait().ok());
      at += count;
    }
  }

  // A segment of one value is that value.
  std::vector<std::uint64_t> Load() {
    ReductionSpec spec;
    spec.operators = {"bit_or"};
    spec.element_type = ElementType::kUint64;
    const ReductionPlan reduction = ReductionPlan::Create(spec).value();
    const std::uint64_t most =
        std::min(slot_.SegmentCapacity(reduction), slot_.staging().size() / sizeof(std::uint64_t));
    std::vector<std::uint64_t> loaded;
    for (const std::uint64_t values = memory_->size() / sizeof(std::uint64_t); loaded.size() < values;) {
      const SegmentCut cut = {.segment_count = std::min(most, values - loaded.size()), .length = 1};
      EXPECT_TRUE(
          slot_.StartSegmentsFrom(reduction, cut, *memory_, loaded.size() * sizeof(std::uint64_t)).ok());
      const absl::StatusOr<SegmentsResult> result = slot_.WaitSegments();
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) break;
      loaded.insert(loaded.end(), result->values.begin(), result->values.end());
    }
    return loaded;
  }

 private:
  Slot& slot_;
  const std::unique_ptr<Memory> memory_;
};

// As another process' memory, to which the server writes, however few they are.
TEST_F(SegmentResultsTest, AreTheSameInMemoryOfTheDevice) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  Slot& slot = *backend->slots().front();
  for (const std::uint64_t segments : Numbers(slot)) {
    SCOPED_TRACE(segments);
    const std::uint64_t stride = segments + 5;
    DeviceMemory memory(*backend, 3 * stride + 1);
    const std::vector<std::uint64_t> expected = Reduce(slot, segments, {});
    ASSERT_EQ(expected.size(), 3 * segments);
    const std::vector<std::uint64_t> written = Reduce(slot, segments, memory.From(1, stride));
    if (memory.memory().host_can_read()) continue;  // results may also be returned then
    EXPECT_TRUE(written.empty());
    EXPECT_EQ(memory.Load(), InColumns(expected, stride, 3 * stride + 1));
  }
}

TEST_F(SegmentResultsTest, AreWrittenToMemoryOfTheDeviceByTheHost) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  DeviceMemory memory(*backend, 1000);
  std::vector<std::uint64_t> expected(1000, kUntouched);
  if (memory.memory().host_can_read()) {
    EXPECT_TRUE(absl::IsUnimplemented(memory.memory().Write(0, std::as_bytes(std::span(expected)))));
    return;
  }
  const std::vector<std::uint64_t> row = {7, 8, 9};
  for (const std::size_t at : {0, 500, 997}) {
    ASSERT_TRUE(memory.memory().Write(at * sizeof(std::uint64_t), std::as_bytes(std::span(row))).ok());
    std::ranges::copy(row, expected.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_EQ(memory.Load(), expected);
}

// If a device reduces an array in place, there may be more of them.
TEST_F(SegmentResultsTest, OfAnArrayInPlace) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  Slot& slot = *backend->slots().front();
  const std::uint64_t staged = slot.staging().size() / sizeof(std::int32_t);
  const auto kept = backend->Allocate(0, slot.staging().size());
  ASSERT_TRUE(kept.ok()) << kept.status();
  Random random(5);
  const std::vector<std::byte> data = RandomElements(ElementType::kInt32, staged, Flavour::kExtreme, random);
  std::ranges::copy(data, slot.staging().begin());
  ASSERT_TRUE(slot.StartStore(**kept, 0, data.size()).ok());
  ASSERT_TRUE(slot.Wait().ok());
  const std::uint64_t most = slot.SegmentCapacityFrom(*reduction_, **kept, 0);
  EXPECT_GE(most, slot.SegmentCapacity(*reduction_));
  const std::uint64_t segments = std::min(most, staged);
  std::vector<std::uint64_t> expected(3 * segments, 0);  // an index is 0
  for (std::uint64_t i = 0; i < segments; ++i) {
    std::int32_t element = 0;
    std::memcpy(&element, data.data() + i * sizeof(element), sizeof(element));
    expected[i] = expected[segments + i] = static_cast<std::uint64_t>(std::int64_t{element});
  }
  const auto reduce_to = [&](const ResultColumns& columns) {
    const SegmentCut cut = {.segment_count = segments, .length = 1, .results = columns};
    EXPECT_TRUE(slot.StartSegmentsFrom(*reduction_, cut, **kept, 0).ok());
    const absl::StatusOr<SegmentsResult> result = slot.WaitSegments();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() && result->values.empty();
  };

  const Pages pages(3 * segments);
  const auto registered = backend->Register(std::as_bytes(pages.all()), /*is_written=*/true);
  ASSERT_TRUE(registered.ok()) << registered.status();
  if (reduce_to({.values = pages.all().data(), .stride = segments})) {
    EXPECT_TRUE(std::ranges::equal(pages.all().first(expected.size()), expected));
  }
  DeviceMemory memory(*backend, expected.size());
  EXPECT_TRUE(reduce_to(memory.From(0, segments)) || memory.memory().host_can_read());
  if (memory.memory().host_can_read()) return;
  EXPECT_EQ(memory.Load(), expected);
}

}  // namespace
}  // namespace warpfold::kernels
