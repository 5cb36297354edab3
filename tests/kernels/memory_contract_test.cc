// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of memory that slots reduce without staging: the bits are the same as for staged elements,
// wherever the elements begin.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/random_array.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{4} << 20;
// Aligned for vectors, for no element, for two-byte elements, and far from the start.
constexpr std::uint64_t kOffsets[] = {0, 1, 6, 512, (std::uint64_t{1} << 20) + 16};

void Store(Slot& slot, const Memory& memory, std::uint64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    // Not a whole slot: the bytes after these must stay as they are.
    const auto piece = data.first(std::min(data.size(), slot.staging().size() - 7));
    std::memcpy(slot.staging().data(), piece.data(), piece.size());
    ASSERT_TRUE(slot.StartStore(memory, offset, piece.size()).ok());
    const absl::StatusOr<SlotResult> result = slot.Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->state.has_value());
    offset += piece.size();
    data = data.subspan(piece.size());
  }
}

// Elements first, first + 1, ... lie at `offset`; no more than `most` go into one Start.
PartialState ReduceFrom(Slot& slot, const ReductionPlan& reduction, std::uint64_t first, std::uint64_t count,
                        const Memory& memory, std::uint64_t offset, std::uint64_t most) {
  PartialState whole(reduction, first);
  while (count > 0) {
    const std::uint64_t capacity = slot.CapacityFrom(reduction, memory, offset);
    EXPECT_EQ(capacity % reduction.leaf_elements(), 0u);
    const std::uint64_t elements = std::min({count, capacity, most});
    EXPECT_TRUE(slot.StartFrom(reduction, first, elements, memory, offset).ok());
    const absl::StatusOr<SlotResult> result = slot.Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return whole;
    EXPECT_TRUE(whole.Append(*result->state).ok());
    first += elements;
    count -= elements;
    offset += elements * reduction.element_bytes();
  }
  return whole;
}

class MemoryContractTest : public testing::TestWithParam<Subject> {
 protected:
  static Backend* backend() { return DeviceUnderTest::Get().backend(); }
};

TEST_P(MemoryContractTest, BitsAreThoseOfStagedElements) {
  if (backend() == nullptr) return;  // the calling thread has no slots
  static auto* const pool = new absl::StatusOr<std::unique_ptr<Memory>>(backend()->Allocate(0, kPoolBytes));
  ASSERT_TRUE(pool->ok()) << pool->status();
  const ReductionPlan reduction = PlanOf(GetParam().spec);
  Slot& slot = *backend()->slots().front();
  Random random(GetParam().name.size());
  const std::uint64_t leaf = reduction.leaf_elements();
  const std::uint64_t largest = (SmallScale() ? 64 << 10 : 512 << 10) / reduction.element_bytes();
  const std::uint64_t first = 3 * leaf;
  for (const std::uint64_t count : {leaf - 1, leaf + 1, 1 + random() % largest}) {
    if (count == 0) continue;
    const std::vector<std::byte> data = RandomArray(reduction, count, Flavour::kExtreme, random);
    const reference::Result expected = GetParam().Reference(first, data);
    const std::uint64_t offset = kOffsets[random() % std::size(kOffsets)];
    ASSERT_NO_FATAL_FAILURE(Store(slot, ***pool, offset, data));
    const std::uint64_t most = (1 + random() % 40) * leaf;
    ASSERT_NO_FATAL_FAILURE(
        ExpectSame(ReduceFrom(slot, reduction, first, count, ***pool, offset, most), 0, expected))
        << count << " elements at byte " << offset << ", at most " << most << " at once";

    std::vector<std::byte> host(data.size() + 1);
    std::memcpy(host.data() + 1, data.data(), data.size());
    const absl::StatusOr<std::unique_ptr<Memory>> registered = backend()->Register(host);
    ASSERT_TRUE(registered.ok()) << registered.status();
    EXPECT_TRUE((*registered)->host_can_read());
    ASSERT_NO_FATAL_FAILURE(
        ExpectSame(ReduceFrom(slot, reduction, first, count, **registered, 1, most), 0, expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Every, MemoryContractTest, testing::ValuesIn(AllSubjects()),
                         [](const auto& subject) { return subject.param.name; });

// One launch takes all scalars on the device; a slot would need hundreds.
TEST(MemoryContractTest, TakesMuchAtOnce) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  const absl::StatusOr<std::unique_ptr<Memory>> memory = backend->Allocate(0, kPoolBytes);
  ASSERT_TRUE(memory.ok());
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kFloat32;
  const ReductionPlan sum = PlanOf(spec);
  const Slot& slot = *backend->slots().front();
  EXPECT_GT(slot.CapacityFrom(sum, **memory, 0), 8 * slot.Capacity(sum));
}

// Memory of `bytes` that another process might write to: two mappings of one file.
struct SharedBytes {
  explicit SharedBytes(std::size_t size) : bytes(size) {
    const int file = memfd_create("shared", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
    ours = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    theirs = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
  }
  ~SharedBytes() {
    munmap(ours, bytes);
    munmap(theirs, bytes);
  }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  const std::size_t bytes;
  void* ours = nullptr;
  void* theirs = nullptr;
};

// Makes one element better and better, so that it is practically impossible that the last element of its row
// is the best one when it is looked for.
template <class Reduce>
void WhileSomebodyWrites(float* element, float step, const Reduce& reduce) {
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    for (float value = 0; !ends; value = std::abs(value) < 1e6f ? value + step : 0) {
      std::atomic_ref(*element).store(value, std::memory_order_relaxed);
    }
  });
  const std::atomic_ref watched(*element);
  while (watched.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
  reduce();
  ends = true;
  writer.join();
}

// Otherwise the result would depend on memory that is somebody else's, or reading it would end the process.
TEST(MemoryContractTest, IndicesOfElementsThatSomebodyChangesAreWithinTheRange) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  constexpr std::uint64_t kCount = 1024;
  const SharedBytes shared(kCount * sizeof(float));
  std::fill_n(static_cast<float*>(shared.theirs), kCount, 0.0f);
  const auto registered = backend->Register({static_cast<const std::byte*>(shared.ours), shared.bytes});
  ASSERT_TRUE(registered.ok()) << registered.status();
  Slot& slot = *backend->slots().front();
  for (const bool least : {true, false}) {
    ReductionSpec spec;
    spec.operators = {least ? "argmin" : "argmax"};
    spec.element_type = ElementType::kFloat32;
    const ReductionPlan reduction = PlanOf(spec);
    WhileSomebodyWrites(static_cast<float*>(shared.theirs) + kCount - 1, least ? -1.0f : 1.0f, [&] {
      for (int i = 0; i < (SmallScale() ? 300 : 20'000); ++i) {
        const PartialState state = ReduceFrom(slot, reduction, 0, kCount, **registered, 0, kCount);
        const absl::StatusOr<OperatorValue> value = state.Finish(0);
        ASSERT_TRUE(value.ok()) << value.status();
        ASSERT_LT(value->index, kCount) << "at call " << i;
      }
    });
  }
}

TEST(MemoryContractTest, MemoryOfNobodyIsRefused) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  ProcessMemory memory = {.byte_offset = 0, .byte_count = 4096};
  memory.handle.fill(std::byte{0x5a});
  const absl::Status status = backend->Open(memory).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) << status;
  EXPECT_TRUE(backend->fault().ok()) << "a bad handle is no loss of the device";
}

}  // namespace
}  // namespace warpfold::kernels
