// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// argmin and argmax of floats without keys: a comparison of floats and two selections for each element. As
// long as there is no NaN, floats compare in the same way as the operators, with zeros of both signs equal.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/extremum.h"

namespace warpfold::kernels::cuda {

// Folds a lane's elements of a full leaf, the first of which is at offset `first`; false if one is NaN.
template <WideFloat T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ bool ArgExtremumOfFloats(
    const ArgExtremum<T, kIgnoreNan, kMax>& op, const LaneVectors& vectors, std::uint32_t first,
    typename ArgExtremum<T, kIgnoreNan, kMax>::LeafState& out) {
  constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);
  T best[kVector];
  std::uint32_t offsets[kVector];
  bool has_nan = false;
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    T elements[kVector];
    std::memcpy(elements, &vectors[row], sizeof elements);
#pragma unroll
    for (std::uint32_t c = 0; c < kVector; ++c) {
      const T x = elements[c];
      has_nan = has_nan || x != x;
      if (row == 0 || (kMax ? x > best[c] : x < best[c])) {
        best[c] = x;
        offsets[c] = row * kRowElements + c;
      }
    }
  }
  if (has_nan) return false;
  out = {KeyOf<T>(best[0], 0), first + offsets[0]};
#pragma unroll
  for (std::uint32_t c = 1; c < kVector; ++c)
    out = op.Combine(out, {KeyOf<T>(best[c], 0), first + offsets[c]});
  return true;
}

}  // namespace warpfold::kernels::cuda
