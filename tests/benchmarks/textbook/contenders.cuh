// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The participants of warpfold-textbook-bench: the textbook's algorithms, the production kernel, and the
// published forms, each as a call over the same device memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>

#include "kernels/cuda/leaf/sum.cuh"
#include "kernels/cuda/leaf/warp_leaves.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/cuda/textbook/grid.cuh"
#include "kernels/cuda/textbook/row_of.cuh"
#include "kernels/cuda/vocabulary.h"
#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/textbook/published_blocks.cuh"
#include "tests/benchmarks/textbook/published_cooperative.cuh"
#include "tests/benchmarks/textbook/published_ladder.cuh"
#include "tests/benchmarks/textbook/published_warps.cuh"

namespace warpfold::benchmarks {

using kernels::Algorithm;
using kernels::cuda::Workspace;
using kernels::cuda::textbook::kAllLaunchersOf;
using kernels::cuda::textbook::kThreadsPerMultiprocessor;
using kernels::cuda::textbook::Section;
using Int32Sum = kernels::Sum<std::int32_t, false>;
using Production = kernels::cuda::WarpLeaves<Int32Sum>;

inline void Check(cudaError_t error) { benchmarks::Check(error, "CUDA"); }

template <class T>
T* Allocate(std::size_t count) {
  T* memory = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&memory), count * sizeof(T)));
  Check(cudaMemset(memory, 0, count * sizeof(T)));
  return memory;
}

// The device memory of all contenders.
struct Memory {
  explicit Memory(std::size_t elements) {
    workspace.partials = Allocate<std::byte>((elements / 16 + 16) * sizeof(Int32Sum::State));
    workspace.tickets = Allocate<unsigned>(2);
    workspace.nodes = Allocate<std::byte>(sizeof(Int32Sum::State));
    workspace.node_stride = sizeof(Int32Sum::State);
    workspace.node_count = 1;
    Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    workspace.multiprocessors = static_cast<unsigned>(multiprocessors);
    data = Allocate<int>(elements);
    partials = Allocate<int>(elements / 128 + 65536);
    out = Allocate<int>(1);
    counter = Allocate<int>(1);
  }
  int multiprocessors = 0;
  Workspace workspace;
  int* data;
  int* partials;
  int* out;
  int* counter;
};

using Call = std::function<void(const Memory&, int count)>;

struct Published {
  const char* name;
  Call call;
};

inline Call Grid(void (*last_block)(const int*, int, int*, int*, int*)) {
  return [=](const Memory& m, int count) {
    Check(cudaMemsetAsync(m.counter, 0, sizeof(int)));
    last_block<<<2 * m.multiprocessors, published::kBlock>>>(m.data, count, m.partials, m.counter, m.out);
  };
}
inline Call OneBlock(void (*kernel)(const int*, int, int*)) {
  return [=](const Memory& m, int count) { kernel<<<1, published::kBlock>>>(m.data, count, m.out); };
}

// The grid is that of the textbook's fixed grids.
inline Call TwoLaunches(void (*kernel)(const int*, int, int*), int threads) {
  return [=](const Memory& m, int count) {
    const int blocks = kThreadsPerMultiprocessor / threads * m.multiprocessors;
    kernel<<<blocks, threads>>>(m.data, count, m.partials);
    kernel<<<1, threads>>>(m.partials, blocks, m.out);
  };
}

template <published::WarpFold kFold>
Call Warps() {
  return TwoLaunches(published::SumByWarps<kFold>, published::kWarpBlock);
}

// Two blocks on each multiprocessor, as in the sample, if so many can be resident at once: a grid that does
// not fit is rejected.
inline void Cooperative(const Memory& m, int count) {
  constexpr auto kKernel = published::ReduceSinglePassMultiBlockCg;
  int resident = 0;
  Check(kernels::cuda::ResidentBlocks<kKernel>(published::kBlock, &resident));
  const auto blocks = static_cast<unsigned>(std::min(resident, 2) * m.multiprocessors);
  const int* const data = m.data;
  Check(kernels::cuda::LaunchCooperatively<kKernel>({blocks, published::kBlock}, nullptr, data, count,
                                                    m.partials, m.out));
}

// Runs the rung on the array, then on its partials, until one is left.
template <int kRung>
void Rung(const Memory& m, int count) {
  constexpr unsigned kItems = published::kRungBlock * (kRung <= 2 ? 1 : 2);
  const int* in = m.data;
  int* partials = m.partials;
  for (auto left = static_cast<unsigned>(count);;) {
    unsigned blocks = (left + kItems - 1) / kItems;
    // The last rungs have a grid of fixed size, and then one block.
    if (kRung >= 6) blocks = in == m.data ? std::min(blocks, 8u * m.multiprocessors) : 1;
    published::Reduce<kRung><<<blocks, published::kRungBlock>>>(in, left, blocks == 1 ? m.out : partials);
    if (blocks == 1) return;
    in = partials;
    partials += blocks;
    left = blocks;
  }
}

// All of the textbook's algorithms are here; the production kernel has no published form. Those of one warp
// reduce 32 elements, and run in a loop that is laid out like the textbook's (published_warps.cuh).
inline const std::map<Algorithm, Published>& PublishedForms() {
  using A = Algorithm;
  static const auto* const forms = new std::map<Algorithm, Published>{
      {A::kSingleBlock, {"sumCommSingleBlock", OneBlock(published::SumCommSingleBlock)}},
      {A::kSingleBlockOrdered, {"sumNoncommSingleBlock", OneBlock(published::SumNoncomm)}},
      {A::kBlockOfWarps, {"sumCommSingleBlockWithWarps", OneBlock(published::SumCommWithWarps)}},
      {A::kTwoLaunch,
       {"sumCommMultiBlock, two launches", TwoLaunches(published::SumCommMultiBlock, published::kBlock)}},
      {A::kLastBlock, {"sumCommMultiBlock, last block", Grid(published::SumCommLastBlock)}},
      {A::kLastBlockOrdered, {"sumNoncommMultiBlock", Grid(published::SumNoncommLastBlock)}},
      {A::kWarpShared, {"sumCommSingleWarp, conditional", Warps<published::SumCommSingleWarp>()}},
      {A::kWarpSharedOnce,
       {"sumCommSingleWarp, once-conditional", Warps<published::SumCommSingleWarpOnce>()}},
      {A::kWarpSharedOrdered, {"sumNoncommSingleWarp", Warps<published::SumNoncommSingleWarp>()}},
      {A::kWarpSharedPadded, {"sumNoncommSingleWarpPadded", Warps<published::SumNoncommSingleWarpPadded>()}},
      {A::kWarpShuffle, {"sumSingleWarpReg", Warps<published::SumSingleWarpReg>()}},
      {A::kInterleavedModulo, {"reduce0", Rung<0>}},
      {A::kInterleavedStrided, {"reduce1", Rung<1>}},
      {A::kSequentialAddressing, {"reduce2", Rung<2>}},
      {A::kFirstAddOnLoad, {"reduce3", Rung<3>}},
      {A::kUnrolledWarp, {"reduce5", Rung<5>}},
      {A::kGridStride, {"reduce6", Rung<6>}},
      {A::kWarpFirst, {"reduce7", Rung<7>}},
      {A::kCooperativeGrid, {"reduceSinglePassMultiBlockCG", Cooperative}}};
  return *forms;
}

inline bool IsOfOneBlock(Algorithm algorithm) {
  using A = Algorithm;
  return algorithm == A::kSingleBlock || algorithm == A::kSingleBlockOrdered || algorithm == A::kBlockOfWarps;
}

// kAuto is the production kernel, on arrays that are one subtree: 2^n elements.
inline void CallOurs(Algorithm algorithm, bool wrap, const Memory& m, int count) {
  const kernels::OperatorParameters parameters = {.wrap_overflow = wrap};
  if (algorithm == Algorithm::kAuto) {
    kernels::cuda::Range range;
    range.data = reinterpret_cast<const std::byte*>(m.data);
    range.element_count = static_cast<std::uint64_t>(count);
    range.leaf_count = range.element_count / Production::kLeafElements;
    Check(kernels::cuda::LaunchReduce<Production>(parameters, range, m.workspace, nullptr));
    return;
  }
  const Section section = {reinterpret_cast<const std::byte*>(m.data), static_cast<std::uint64_t>(count), 0};
  Check(kAllLaunchersOf<Int32Sum>.For(algorithm, parameters)(parameters, section, m.workspace, nullptr));
}

}  // namespace warpfold::benchmarks
