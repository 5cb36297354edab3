// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest of elements of 8 and 16 bits, several at once, and of float32 without keys,
// with one instruction for each. float64 has no such instruction, and uses its keys.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/operators/extremum.h"

namespace warpfold::kernels::cuda {

#if __CUDA_ARCH__ < 800  // one by one, using their keys
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
// wins over numbers, without it numbers win over a NaN.
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
  // As the upper byte of a half, a byte determines the comparison, whatever is below it.
  return op.Combine(
      upper,
      CombineHalves(op, FoldWords(
                            vectors, [](std::uint32_t word) { return ValuesOf<T>(word) << 8; }, combine)));
}

// PTX ISA, min and max: as with halves, -0.0 is below +0.0, and NaN wins or loses.
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
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    float elements[4];
    std::memcpy(elements, &vectors[row], sizeof elements);
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = Better<kIgnoreNan, kMax>(best[i], elements[i]);
  }
  const auto better = Better<kIgnoreNan, kMax>;
  return op.Lift(better(better(best[0], best[1]), better(best[2], best[3])), 0);
}

// The elements for which there is an ExtremumOf.
template <class T>
concept ExtremumElement = PackedElement<T> || std::same_as<T, float>;

}  // namespace warpfold::kernels::cuda
