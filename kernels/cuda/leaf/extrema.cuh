// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest of elements of 8 and 16 bits, several at once, and of float32 and float64
// without keys: an instruction for each float32, a comparison and two choices for each float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/operators/extremum.h"

namespace warpfold::kernels::cuda {

#if __CUDA_ARCH__ < 800  // one by one, by their keys
template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfFloatHalves(std::uint32_t a, std::uint32_t b) {
  constexpr Extremum<T, kIgnoreNan, kMax> op{};
  const auto of = [&](std::uint32_t x, std::uint32_t y) {
    const auto key = op.Combine(op.Lift(BitCast<T>(static_cast<std::uint16_t>(x)), 0),
                                op.Lift(BitCast<T>(static_cast<std::uint16_t>(y)), 0));
    return std::uint32_t{static_cast<std::uint16_t>(FlipMagnitude<T>(key))};
  };
  return of(a >> 16, b >> 16) << 16 | of(a, b);
}
#else
#define WARPFOLD_OF_HALVES(instruction) asm(instruction " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b))

template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfFloatHalves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  if constexpr (std::is_same_v<T, Float16>) {
    if constexpr (kMax && kIgnoreNan) WARPFOLD_OF_HALVES("max.f16x2");
    if constexpr (kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("max.NaN.f16x2");
    if constexpr (!kMax && kIgnoreNan) WARPFOLD_OF_HALVES("min.f16x2");
    if constexpr (!kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("min.NaN.f16x2");
  } else {
    if constexpr (kMax && kIgnoreNan) WARPFOLD_OF_HALVES("max.bf16x2");
    if constexpr (kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("max.NaN.bf16x2");
    if constexpr (!kMax && kIgnoreNan) WARPFOLD_OF_HALVES("min.bf16x2");
    if constexpr (!kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("min.NaN.bf16x2");
  }
  return out;
}
#undef WARPFOLD_OF_HALVES
#endif

// The extrema of each half of two words. Floats (PTX ISA, min and max): -0.0 is below +0.0; with .NaN a NaN
// goes before numbers, without it numbers before a NaN.
template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfHalves(std::uint32_t a, std::uint32_t b) {
  if constexpr (HalfElement<T>) {
    return ExtremaOfFloatHalves<T, kIgnoreNan, kMax>(a, b);
  } else if constexpr (kIsSigned<T>) {
    return kMax ? __vmaxs2(a, b) : __vmins2(a, b);
  } else {
    return kMax ? __vmaxu2(a, b) : __vminu2(a, b);
  }
}

// Combines the two halves of a word as elements; an element of 8 bits is the upper byte of its half.
template <class Op, class T = typename Op::Element>
__device__ __forceinline__ typename Op::LeafState CombineHalves(const Op& op, std::uint32_t word) {
  constexpr int kShift = 16 - 8 * sizeof(T);
  const auto low = BitCast<T>(static_cast<Bits<T>>(word >> kShift));
  const auto high = BitCast<T>(static_cast<Bits<T>>(word >> (16 + kShift)));
  return op.Combine(op.Lift(low, 0), op.Lift(high, 0));
}

// ExtremumOf is the extremum of a lane's elements.
template <PackedElement T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ Key<T> ExtremumOf(const Extremum<T, kIgnoreNan, kMax>& op,
                                             const LaneVectors& vectors) {
  const auto combine = ExtremaOfHalves<T, kIgnoreNan, kMax>;
  const Key<T> upper =
      CombineHalves(op, FoldWords(
                            vectors, [](std::uint32_t word) { return ValuesOf<T>(word); }, combine));
  if constexpr (sizeof(T) == 2) return upper;
  // A byte compares as the upper one of a half, whatever is below it.
  return op.Combine(
      upper,
      CombineHalves(op, FoldWords(
                            vectors, [](std::uint32_t word) { return ValuesOf<T>(word) << 8; }, combine)));
}

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
__device__ __forceinline__ Key<float> ExtremumOf(const Extremum<float, kIgnoreNan, kMax>& op,
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
__device__ __forceinline__ Key<double> ExtremumOf(const Extremum<double, kIgnoreNan, kMax>& op,
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

// The elements for which there is an ExtremumOf.
template <class T>
concept ExtremumElement = PackedElement<T> || WideFloat<T>;

}  // namespace warpfold::kernels::cuda
