// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements in registers, as 16-byte loads bring them.
#pragma once

#include <cstdint>

#include "kernels/cuda/vocabulary.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cuda {

// A lane's part of a leaf.
using LaneVectors = uint4[kLeafRows];

// Loads a vector that is read once, if it `exists`; otherwise the result is arbitrary. This is not a branch,
// because the compiler would have to finish everything before a branch before it could issue the loads after
// it.
__device__ __forceinline__ uint4 LoadStreamed(const uint4* vector, bool exists) {
#if defined(WARPFOLD_SIMT)
  return exists ? *vector : uint4{};
#else
  uint4 loaded;
  asm("{\n\t"
      ".reg .pred exists;\n\t"
      "setp.ne.u32 exists, %5, 0;\n\t"
      "@exists ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];\n\t"
      "}"
      : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
      : "l"(vector), "r"(static_cast<unsigned>(exists)));
  return loaded;
#endif
}

// Element c of a vector, where c is a constant after unrolling. Words are shifted, because nvcc keeps arrays
// of elements of 8 or 16 bits in memory if there are many states.
template <class T>
__device__ __forceinline__ T ElementOf(const uint4& vector, std::uint32_t c) {
  const std::uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
  if constexpr (sizeof(T) == 8) {
    return BitCast<T>(std::uint64_t{words[2 * c + 1]} << 32 | words[2 * c]);
  } else {
    constexpr std::uint32_t kInWord = 4 / sizeof(T);
    return BitCast<T>(static_cast<Bits<T>>(words[c / kInWord] >> c % kInWord * (8 * sizeof(T))));
  }
}

// Element c of a vector, where c is known only at run time.
template <class T>
__device__ __forceinline__ T ElementAt(const uint4& vector, std::uint32_t c) {
  if constexpr (sizeof(T) == 8) {
    return ElementOf<T>(c == 0 ? vector : make_uint4(vector.z, vector.w, 0, 0), 0);
  } else {
    constexpr std::uint32_t kInWord = 4 / sizeof(T);
    const std::uint32_t word = c / kInWord;
    const std::uint32_t low = word % 2 == 0 ? vector.x : vector.y;
    const std::uint32_t high = word % 2 == 0 ? vector.z : vector.w;
    return BitCast<T>(static_cast<Bits<T>>((word < 2 ? low : high) >> c % kInWord * (8 * sizeof(T))));
  }
}

}  // namespace warpfold::kernels::cuda
