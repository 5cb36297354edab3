// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "tests/benchmarks/cuda/ceiling.h"
#include "tests/benchmarks/cuda/check.h"

namespace warpfold::benchmarks {
namespace {

__device__ unsigned g_sink;

__device__ unsigned Fold(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

// A grid that strides through the data, with `kLoads` loads of a thread in flight.
template <int kThreads, int kLoads>
__global__ void __launch_bounds__(kThreads) ReadStriding(const uint4* data, std::size_t count) {
  unsigned fold = 0;
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kLoads - 1) * stride < count; i += kLoads * stride) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) loaded[k] = __ldcs(data + i + k * stride);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) fold ^= Fold(loaded[k]);
  }
  for (; i < count; i += stride) fold ^= Fold(__ldcs(data + i));
  // Practically never true, which the compiler cannot know.
  if (fold == 0x12345678u) g_sink = fold;
}

// A block for each tile of kThreads * kLoads vectors.
template <int kThreads, int kLoads>
__global__ void __launch_bounds__(kThreads) ReadTiles(const uint4* data, std::size_t count) {
  const std::size_t first = std::size_t{blockIdx.x} * (kThreads * kLoads) + threadIdx.x;
  uint4 loaded[kLoads];
#pragma unroll
  for (int k = 0; k < kLoads; ++k) {
    const std::size_t i = first + k * kThreads;
    loaded[k] = i < count ? __ldcs(data + i) : uint4{};
  }
  unsigned fold = 0;
#pragma unroll
  for (int k = 0; k < kLoads; ++k) fold ^= Fold(loaded[k]);
  if (fold == 0x12345678u) g_sink = fold;
}

__global__ void Empty() {}

using Kernel = void (*)(const uint4*, std::size_t);

Contender MakeCeiling(Kernel kernel, std::size_t blocks, unsigned threads, std::size_t vectors,
                      cudaStream_t stream) {
  const auto call = [=](const std::byte* data) {
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(reinterpret_cast<const uint4*>(data),
                                                                  vectors);
    Check(cudaGetLastError(), "ceiling");
  };
  return {.key = "ceiling", .call = call};
}

}  // namespace

std::vector<Contender> ReadCeilings(std::size_t bytes, cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 0;
  Check(cudaGetDevice(&device), "device");
  Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "device");
  const std::size_t vectors = bytes / 16;
  const auto striding = [&](Kernel kernel, unsigned threads, int blocks_per_multiprocessor) {
    const std::size_t enough = std::max<std::size_t>((vectors + threads - 1) / threads, 1);
    const std::size_t fixed = std::size_t{1} * multiprocessors * blocks_per_multiprocessor;
    return MakeCeiling(kernel, std::min(enough, fixed), threads, vectors, stream);
  };
  constexpr std::size_t kTile = 512 * 4;
  return {
      striding(ReadStriding<512, 4>, 512, 2),
      striding(ReadStriding<512, 4>, 512, 4),
      striding(ReadStriding<1024, 4>, 1024, 2),
      striding(ReadStriding<512, 8>, 512, 2),
      MakeCeiling(ReadTiles<512, 4>, std::max<std::size_t>((vectors + kTile - 1) / kTile, 1), 512, vectors,
                  stream),
  };
}

void LaunchEmpty(cudaStream_t stream) {
  Empty<<<1, 32, 0, stream>>>();
  Check(cudaGetLastError(), "empty kernel");
}

}  // namespace warpfold::benchmarks
