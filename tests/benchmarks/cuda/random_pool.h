// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Device memory full of random data, handed out piece by piece, so that every call reads memory that was last
// touched a whole pool ago: the pool must be several times the size of the L2 cache.
#pragma once

#include <cstddef>

namespace warpfold::benchmarks {

enum class RandomData {
  kNothing,
  kBits,  // of any exponent, if they are floats, but finite and at most 2
  kUniformFloats,
  kUniformDoubles,
  kFloatsNearOne,
  kDoublesNearOne,
};

class RandomPool {
 public:
  explicit RandomPool(std::size_t bytes);
  ~RandomPool();
  RandomPool(const RandomPool&) = delete;
  RandomPool& operator=(const RandomPool&) = delete;

  void FillWith(RandomData data);

  // The next `bytes` (at most the pool's), 256-byte aligned.
  const std::byte* Next(std::size_t bytes);

 private:
  std::size_t bytes_;
  std::size_t next_ = 0;
  RandomData filled_with_ = RandomData::kNothing;
  std::byte* data_ = nullptr;
};

}  // namespace warpfold::benchmarks
