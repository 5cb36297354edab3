// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/cuda/random_pool.h"

namespace warpfold::benchmarks {
namespace {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
__device__ std::uint64_t RandomWord(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Every bit is random except one in 16, which is 0: so no float of 16, 32 or 64 bits is a NaN or infinite,
// and none is larger than 2.
struct AnyBits {
  __device__ std::uint64_t operator()(std::uint64_t word) const { return word & 0xbfffbfffbfffbfffu; }
};
// Uniform, up to `radius` from `center`.
struct UniformFloats {
  float center;
  float radius;

  __device__ std::uint64_t operator()(std::uint64_t word) const {
    const auto uniform = [this](std::uint64_t bits) {
      const float x = 0x1p-31f * static_cast<float>(static_cast<std::int32_t>(bits));
      return std::uint64_t{__float_as_uint(center + radius * x)};
    };
    return uniform(word >> 32) << 32 | uniform(word & 0xffffffffu);
  }
};
struct UniformDoubles {
  double center;
  double radius;

  __device__ std::uint64_t operator()(std::uint64_t word) const {
    const double x = 0x1p-63 * static_cast<double>(static_cast<std::int64_t>(word));
    return static_cast<std::uint64_t>(__double_as_longlong(center + radius * x));
  }
};
// Products of 2^31 elements that are this near to 1 are far from 0 and from infinity, and depend on each
// element.
constexpr float kNearOne = 0x1p-12f;

template <class Element>
__global__ void Fill(std::uint64_t* words, std::size_t count, Element element) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    words[i] = element(RandomWord(i));
  }
}

}  // namespace

RandomPool::RandomPool(std::size_t bytes) : bytes_(bytes) {
  Check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "memory for the pool");
}

RandomPool::~RandomPool() { cudaFree(data_); }

void RandomPool::FillWith(RandomData data) {
  if (data == filled_with_) return;
  filled_with_ = data;
  auto* const words = reinterpret_cast<std::uint64_t*>(data_);
  constexpr int kBlocks = 1024;
  constexpr int kThreads = 256;
  switch (data) {
    case RandomData::kNothing:
      return;
    case RandomData::kBits:
      Fill<<<kBlocks, kThreads>>>(words, bytes_ / 8, AnyBits());
      break;
    case RandomData::kUniformFloats:
      Fill<<<kBlocks, kThreads>>>(words, bytes_ / 8, UniformFloats{0, 1});
      break;
    case RandomData::kUniformDoubles:
      Fill<<<kBlocks, kThreads>>>(words, bytes_ / 8, UniformDoubles{0, 1});
      break;
    case RandomData::kFloatsNearOne:
      Fill<<<kBlocks, kThreads>>>(words, bytes_ / 8, UniformFloats{1, kNearOne});
      break;
    case RandomData::kDoublesNearOne:
      Fill<<<kBlocks, kThreads>>>(words, bytes_ / 8, UniformDoubles{1, kNearOne});
      break;
  }
  Check(cudaGetLastError(), "fill the pool");
  Check(cudaDeviceSynchronize(), "fill the pool");
}

const std::byte* RandomPool::Next(std::size_t bytes) {
  if (next_ + bytes > bytes_) next_ = 0;
  const std::byte* piece = data_ + next_;
  next_ += (bytes + 255) / 256 * 256;
  return piece;
}

}  // namespace warpfold::benchmarks
