// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/gather.h"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::cuda {
namespace {

constexpr std::uint32_t kThreads = kGatherThreads;
// A tile that is not aligned extends into one more vector.
constexpr std::uint32_t kVectors = kTileBytes / kVectorBytes + 1;
constexpr std::uint32_t kLoads = (kVectors + kThreads - 1) / kThreads;

// Brings all vectors that contain a part of the tile into shared memory. All of a thread's loads are issued
// before it waits for the first: the bus takes microseconds for each.
__device__ void LoadTile(const Tile& tile, std::uint32_t lead, uint4* loaded) {
  const auto* const source = reinterpret_cast<const uint4*>(tile.from - lead);
  const auto count = static_cast<std::uint32_t>((lead + tile.byte_count + kVectorBytes - 1) / kVectorBytes);
  uint4 mine[kLoads];
#pragma unroll
  for (std::uint32_t i = 0; i < kLoads; ++i) {
    const std::uint32_t vector = threadIdx.x + i * kThreads;
    mine[i] = LoadStreamed(source + vector, vector < count);
  }
#pragma unroll
  for (std::uint32_t i = 0; i < kLoads; ++i) {
    const std::uint32_t vector = threadIdx.x + i * kThreads;
    if (vector < count) loaded[vector] = mine[i];
  }
}

// The 16 bytes from `byte` on, at any alignment.
__device__ uint4 VectorAt(const std::uint32_t* words, std::uint32_t byte) {
  const std::uint32_t* const from = words + byte / 4;
  const std::uint32_t shift = byte % 4 * 8;
  return {__funnelshift_r(from[0], from[1], shift), __funnelshift_r(from[1], from[2], shift),
          __funnelshift_r(from[2], from[3], shift), __funnelshift_r(from[3], from[4], shift)};
}

// Vectors of the target that a tile covers only in part are written byte by byte; the rest of such a vector
// belongs to another tile.
__device__ void StoreTile(const Tile& tile, std::uint32_t lead, const uint4* loaded, std::byte* target) {
  const auto bytes = static_cast<std::uint32_t>(tile.byte_count);
  const auto* const source = reinterpret_cast<const std::byte*>(loaded) + lead;
  std::byte* const to = target + tile.to;
  const auto gap = static_cast<std::uint32_t>((kVectorBytes - tile.to % kVectorBytes) % kVectorBytes);
  const std::uint32_t head = gap < bytes ? gap : bytes;
  const std::uint32_t vectors = (bytes - head) / kVectorBytes;
  const std::uint32_t tail = head + vectors * kVectorBytes;
  for (std::uint32_t v = threadIdx.x; v < vectors; v += kThreads) {
    reinterpret_cast<uint4*>(to + head)[v] =
        VectorAt(reinterpret_cast<const std::uint32_t*>(loaded), lead + head + v * kVectorBytes);
  }
  if (threadIdx.x < head) to[threadIdx.x] = source[threadIdx.x];
  if (threadIdx.x < bytes - tail) to[tail + threadIdx.x] = source[tail + threadIdx.x];
}

// Source and target are aligned differently: data go through shared memory, where the cost of a shift is
// negligible compared with the bus.
__global__ void __launch_bounds__(kThreads)
    Gather(const Tile* tiles, std::uint32_t tile_count, std::byte* target) {
  __shared__ Tile tile;
  __shared__ uint4 loaded[kVectors + 1];  // VectorAt reads up to a word beyond the last
  for (std::uint32_t i = blockIdx.x; i < tile_count; i += gridDim.x) {
    if (threadIdx.x == 0) tile = tiles[i];
    __syncthreads();
    const auto lead = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(tile.from) % kVectorBytes);
    LoadTile(tile, lead, loaded);
    __syncthreads();
    StoreTile(tile, lead, loaded, target);
    __syncthreads();  // before the next tile takes their place
  }
}

}  // namespace

cudaError_t LaunchGather(const Tile* tiles, std::size_t tile_count, std::byte* target, cudaStream_t stream) {
  const auto count = static_cast<std::uint32_t>(tile_count);
  return LaunchKernel<Gather>({std::min(count, kGatherBlocks), kThreads}, stream, tiles, count, target);
}

}  // namespace warpfold::kernels::cuda
