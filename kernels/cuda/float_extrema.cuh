// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest of float32 and float64 without keys: an instruction for each element of 32
// bits, a comparison and two choices for each of 64. FoldPacked(op, vectors) as in packed.cuh.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/packed.cuh"
#include "kernels/operators/extremum.h"

namespace warpfold::kernels::cuda {

// Calls f(element) for all of a lane's elements, row by row.
template <class T, class F>
__device__ __forceinline__ void ForEachElement(const LaneVectors& vectors, const F& f) {
  constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    T elements[kVector];
    std::memcpy(elements, &vectors[row], sizeof elements);
#pragma unroll
    for (std::uint32_t c = 0; c < kVector; ++c) f(elements[c], c);
  }
}

// PTX ISA, min and max: as with halves, -0.0 is below +0.0, and NaN goes first or last.
template <bool kIgnoreNan, bool kMax>
__device__ __forceinline__ float Better(float a, float b) {
  float out;
#if __CUDA_ARCH__ < 800
  if (!kIgnoreNan && a != a) return a;
  if (!kIgnoreNan && b != b) return b;
  if constexpr (kMax) asm("max.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  if constexpr (!kMax) asm("min.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
#else
  if constexpr (kMax && kIgnoreNan) asm("max.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  if constexpr (kMax && !kIgnoreNan) asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  if constexpr (!kMax && kIgnoreNan) asm("min.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  if constexpr (!kMax && !kIgnoreNan) asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
#endif
  return out;
}

template <bool kIgnoreNan, bool kMax>
__device__ __forceinline__ Key<float> FoldPacked(const Extremum<float, kIgnoreNan, kMax>& op,
                                                 const LaneVectors& vectors) {
  float best[4] = {NAN, NAN, NAN, NAN};
  if constexpr (!kIgnoreNan) std::memcpy(best, &vectors[0], sizeof best);
  ForEachElement<float>(vectors,
                        [&](float x, std::uint32_t c) { best[c] = Better<kIgnoreNan, kMax>(best[c], x); });
  const auto better = Better<kIgnoreNan, kMax>;
  return op.Lift(better(better(best[0], best[1]), better(best[2], best[3])), 0);
}

// There is no such instruction for float64. Comparisons know neither NaN nor the signs of zeros: of the
// former it is enough to know whether there is one, or nothing else; the latter are looked for where they
// matter.
template <bool kIgnoreNan, bool kMax>
__device__ __forceinline__ Key<double> FoldPacked(const Extremum<double, kIgnoreNan, kMax>& op,
                                                  const LaneVectors& vectors) {
  constexpr double kWorst = kMax ? -HUGE_VAL : HUGE_VAL;
  double best[2] = {kWorst, kWorst};
  bool has_nan = false;
  bool has_number = false;
  ForEachElement<double>(vectors, [&](double x, std::uint32_t c) {
    if (kMax ? x > best[c] : x < best[c]) best[c] = x;
    has_nan = has_nan || x != x;
    if constexpr (kIgnoreNan) has_number = has_number || x == x;
  });
  if (kIgnoreNan ? !has_number : has_nan) return kIgnoreNan ? op.kWorst : op.kBest;
  double winner = (kMax ? best[1] > best[0] : best[1] < best[0]) ? best[1] : best[0];
  if (winner == 0) {
    constexpr double kZero = kMax ? 0.0 : -0.0;
    winner = -kZero;
    ForEachElement<double>(vectors, [&](double x, std::uint32_t) {
      if (BitCast<std::uint64_t>(x) == BitCast<std::uint64_t>(kZero)) winner = kZero;
    });
  }
  return op.Lift(winner, 0);
}

template <class T, bool kIgnoreNan>
requires(std::is_same_v<T, float> || std::is_same_v<T, double>) __device__ __forceinline__
    typename Minmax<T, kIgnoreNan>::State
    FoldPacked(const Minmax<T, kIgnoreNan>&, const LaneVectors& vectors) {
  using Op = Minmax<T, kIgnoreNan>;
  return {FoldPacked(typename Op::Least(), vectors), FoldPacked(typename Op::Greatest(), vectors)};
}

}  // namespace warpfold::kernels::cuda
