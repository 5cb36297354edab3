// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What CUDA's vocabulary means on a simt::Device, and what the device reports of kernels that break its
// rules.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::simt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr unsigned kFull = 0xffffffffu;
constexpr std::uint64_t kSeeds = 30;

// Memory for `count` numbers that blocks share.
unsigned* Numbers(Device& device, std::size_t count) {
  std::byte* const bytes = device.Allocate(count * sizeof(unsigned));
  device.Set(bytes, std::byte{0}, count * sizeof(unsigned));
  return reinterpret_cast<unsigned*>(bytes);
}

__global__ void Shuffles(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* const mine = out + threadIdx.x * 7;
  mine[0] = __shfl_down_sync(kFull, lane, 5);
  mine[1] = __shfl_xor_sync(kFull, lane, 12);
  mine[2] = __shfl_sync(kFull, lane, 7);
  mine[3] = __shfl_down_sync(kFull, lane, 3, 8);
  mine[4] = __ballot_sync(kFull, lane % 3 == 0);
  mine[5] = __reduce_add_sync(kFull, lane);
  mine[6] = __reduce_max_sync(kFull, lane);
}

TEST(VocabularyTest, LanesExchange) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Device device(seed);
    unsigned* const out = Numbers(device, 64 * 7);
    ASSERT_EQ(LaunchKernel<Shuffles>({1, 64}, &device, out), cudaSuccess) << device.failure();
    for (unsigned thread = 0; thread < 64; ++thread) {
      const unsigned lane = thread % 32;
      const unsigned* const mine = out + thread * 7;
      EXPECT_EQ(mine[0], lane + 5 < 32 ? lane + 5 : lane);
      EXPECT_EQ(mine[1], lane ^ 12u);
      EXPECT_EQ(mine[2], 7u);
      EXPECT_EQ(mine[3], lane % 8 + 3 < 8 ? lane + 3 : lane);
      EXPECT_EQ(mine[4], 0x49249249u);
      EXPECT_EQ(mine[5], 496u);
      EXPECT_EQ(mine[6], 31u);
    }
  }
}

// Two halves of a warp, each with its own mask, one of them twice.
__global__ void Halves(unsigned* out) {
  const bool upper = threadIdx.x >= 16;
  const unsigned mask = upper ? 0xffff0000u : 0xffffu;
  unsigned sum = __reduce_add_sync(mask, threadIdx.x);
  if (upper) sum += __reduce_add_sync(mask, 1u);
  out[threadIdx.x] = sum;
}

TEST(VocabularyTest, PartsOfAWarpMeetAlone) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Device device(seed);
    unsigned* const out = Numbers(device, 32);
    ASSERT_EQ(LaunchKernel<Halves>({1, 32}, &device, out), cudaSuccess) << device.failure();
    EXPECT_EQ(out[0], 120u);
    EXPECT_EQ(out[31], 376u + 16);
  }
}

// 70 threads reverse an array in shared memory, twice.
__global__ void TurnsAround(unsigned* out) {
  WARPFOLD_SHARED(unsigned, cells, [70]);
  unsigned* const dynamic = DynamicSharedMemory<unsigned>();
  cells[threadIdx.x] = threadIdx.x;
  __syncthreads();
  dynamic[threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = dynamic[(threadIdx.x + 1) % blockDim.x] + 1000 * blockIdx.x;
}

TEST(VocabularyTest, BlocksHaveSharedMemoryOfTheirOwn) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Device device(seed);
    unsigned* const out = Numbers(device, 5 * 70);
    ASSERT_EQ(LaunchKernel<TurnsAround>({5, 70, 70 * 4}, &device, out), cudaSuccess) << device.failure();
    for (unsigned i = 0; i < 5 * 70; ++i) EXPECT_EQ(out[i], 69 - (i % 70 + 1) % 70 + i / 70 * 1000);
  }
}

__global__ void Counts(unsigned* counters) {
  atomicAdd(&counters[0], 3);
  atomicInc(&counters[1], 4);
}

TEST(VocabularyTest, AtomicsLoseNothing) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Device device(seed);
    unsigned* const counters = Numbers(device, 2);
    ASSERT_EQ(LaunchKernel<Counts>({7, 33}, &device, counters), cudaSuccess);
    EXPECT_EQ(counters[0], 7u * 33 * 3);
    EXPECT_EQ(counters[1], 7u * 33 % 5);
  }
}

// The last block sums what all blocks wrote, following the pattern of the toolkit's threadFenceReduction
// sample.
__global__ void FencedSum(unsigned* partials, unsigned* ticket, unsigned* sum) {
  partials[blockIdx.x] = blockIdx.x + 1;
  __threadfence();
  if (atomicInc(ticket, gridDim.x - 1) != gridDim.x - 1) return;
  __threadfence();
  *sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *sum += partials[i];
}
__global__ void UnfencedSum(unsigned* partials, unsigned* ticket, unsigned* sum) {
  partials[blockIdx.x] = blockIdx.x + 1;
  if (atomicInc(ticket, gridDim.x - 1) != gridDim.x - 1) return;
  *sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *sum += partials[i];
}

TEST(VisibilityTest, FencesMakeWritesVisible) {
  bool was_wrong = false;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Device device(seed);
    unsigned* const memory = Numbers(device, 16);
    ASSERT_EQ(LaunchKernel<FencedSum>({9, 1}, &device, memory, memory + 14, memory + 15), cudaSuccess);
    EXPECT_EQ(memory[15], 45u) << seed;
    Device other(seed);
    unsigned* const unfenced = Numbers(other, 16);
    ASSERT_EQ(LaunchKernel<UnfencedSum>({9, 1}, &other, unfenced, unfenced + 14, unfenced + 15), cudaSuccess);
    was_wrong = was_wrong || unfenced[15] != 45;
    EXPECT_EQ(unfenced[3], 4u) << "when a launch has ended all is visible";
  }
  EXPECT_TRUE(was_wrong);
}

// Each thread records how many came before it.
__global__ void NotesOrder(unsigned* next, unsigned* order) {
  order[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(next, 1);
}
std::vector<unsigned> OrderOf(std::uint64_t seed) {
  Device device(seed);
  unsigned* const memory = Numbers(device, 257);
  EXPECT_EQ(LaunchKernel<NotesOrder>({4, 64}, &device, memory + 256, memory), cudaSuccess);
  return {memory, memory + 256};
}

TEST(ScheduleTest, ASeedIsARunAndZeroIsInOrder) {
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    orders.insert(OrderOf(seed));
    EXPECT_EQ(OrderOf(seed), OrderOf(seed)) << seed;
  }
  EXPECT_EQ(orders.size(), 20u);
  const std::vector<unsigned> in_order = OrderOf(0);
  for (unsigned i = 0; i < in_order.size(); ++i) EXPECT_EQ(in_order[i], i);
}

template <auto kKernel>
std::string FailureOf(unsigned blocks, unsigned threads) {
  Device device(3);
  EXPECT_NE(LaunchKernel<kKernel>({blocks, threads}, &device), cudaSuccess);
  EXPECT_NE(LaunchKernel<kKernel>({blocks, threads}, &device), cudaSuccess) << "refused";
  return device.failure();
}

__global__ void HalfWaits() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncwarp();
    __syncthreads();
  }
}
__global__ void OneLaneWaits() {
  if (threadIdx.x == 40) __syncwarp();
  __syncthreads();
}
__global__ void ShufflesWithout() {
  if (threadIdx.x != 5) __shfl_sync(0xffffffdfu, 1, 5);
}
__global__ void NotInItsMask() { __syncwarp(0xffu); }
__global__ void OtherMasks() { __syncwarp(threadIdx.x < 16 ? kFull : 0xffff8000u); }
__global__ void WaitsForGrid() { cooperative_groups::this_grid().sync(); }
__global__ void TooMuchShared() {
  WARPFOLD_SHARED(unsigned, cells, [13000]);
  cells[threadIdx.x] = 0;
}
__global__ void Nothing() {}

TEST(ReportTest, NamesKernelBlockAndThread) {
  EXPECT_THAT(FailureOf<HalfWaits>(1, 64), AllOf(HasSubstr("HalfWaits, block 0, thread "),
                                                 HasSubstr("waits for its block at executor_test.cc:")));
  EXPECT_THAT(
      FailureOf<OneLaneWaits>(1, 64),
      AllOf(HasSubstr("waits for lanes ffffffff at executor_test.cc:"), HasSubstr("waits for its block")));
  EXPECT_THAT(FailureOf<ShufflesWithout>(1, 32), HasSubstr("reads lane 5, which takes no part"));
  EXPECT_THAT(FailureOf<NotInItsMask>(1, 32), HasSubstr("is not in its own mask"));
  EXPECT_THAT(FailureOf<OtherMasks>(1, 32), HasSubstr("waits for lanes"));
  EXPECT_THAT(FailureOf<WaitsForGrid>(2, 1), HasSubstr("the launch is not cooperative"));
  EXPECT_THAT(FailureOf<TooMuchShared>(1, 1), HasSubstr("52000 bytes of shared memory; there are 49152"));
  EXPECT_THAT(FailureOf<Nothing>(1, 2000), HasSubstr("2000 threads"));
  EXPECT_THAT(FailureOf<Nothing>(0, 1), HasSubstr("0 blocks"));
}

}  // namespace
}  // namespace warpfold::kernels::simt
