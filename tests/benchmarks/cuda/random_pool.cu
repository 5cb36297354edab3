// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/cuda/random_pool.h"

namespace warpfold::benchmarks {
namespace {

// Every bit is random but one in 16, which is 0: so no float, of 16, 32 or 64 bits, is a NaN or infinite,
// and none is larger than 2. SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014).
__global__ void FillRandom(std::uint64_t* words, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    words[i] = (z ^ (z >> 31)) & 0xbfffbfffbfffbfffu;
  }
}

}  // namespace

RandomPool::RandomPool(std::size_t bytes) : bytes_(bytes) {
  Check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "memory for the pool");
  FillRandom<<<1024, 256>>>(reinterpret_cast<std::uint64_t*>(data_), bytes / 8);
  Check(cudaGetLastError(), "fill the pool");
  Check(cudaDeviceSynchronize(), "fill the pool");
}

RandomPool::~RandomPool() { cudaFree(data_); }

const std::byte* RandomPool::Next(std::size_t bytes) {
  if (next_ + bytes > bytes_) next_ = 0;
  const std::byte* piece = data_ + next_;
  next_ += (bytes + 255) / 256 * 256;
  return piece;
}

}  // namespace warpfold::benchmarks
