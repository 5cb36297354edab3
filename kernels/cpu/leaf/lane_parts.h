// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The moments of a leaf's lanes, with an array for each part, so that compilers vectorise over lanes; and the
// vectors of doubles that these consist of. For variance (leaf/variance.h).
//
// Compiled once per instruction set, each time in a separate namespace: WARPFOLD_ISA.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/vectors.h"
#include "kernels/geometry.h"
#include "kernels/operators/moments.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

inline constexpr std::uint32_t kSimdDoubles = kSimdBytes / sizeof(double);
inline constexpr std::uint32_t kLaneVectors = kLanes / kSimdDoubles;

// Adjacent doubles, from an array and to one. Vectors are moved one by one: an array of them that is copied
// as a whole goes through narrower registers, whose loads have to wait for the vectors' stores.
inline __attribute__((always_inline)) Simd<double> DoublesOf(const double* data) {
  return LoadSimd<double>(reinterpret_cast<const std::byte*>(data));
}
inline __attribute__((always_inline)) void Store(const Simd<double>& x, double* data) {
  std::memcpy(data, &x, sizeof x);
}

// The moments of adjacent lanes, without the count.
using LaneParts = MomentParts<Simd<double>>;

// Folds lanes of `count` elements each at halving distances: first vector with vector, then within a vector.
inline __attribute__((always_inline)) Moments FoldEqualLanes(LaneParts* lanes, std::uint64_t count) {
  for (std::uint32_t width = kLaneVectors / 2; width > 0; width /= 2) {
    for (std::uint32_t i = 0; i < width; ++i) lanes[i] = MergeEqualParts(lanes[i], lanes[i + width], count);
    count *= 2;
  }
  LaneParts last = lanes[0];
#if defined(__AVX2__)
  const auto swapped = [](const Simd<double>& x) -> Simd<double> { return _mm256_permute2f128_pd(x, x, 1); };
  last = MergeEqualParts(last, {swapped(last.mean), swapped(last.mean_low), swapped(last.deviations)}, count);
  count *= 2;
#endif
  const MomentParts<double> leaf =
      MergeEqualParts<double>({last.mean[0], last.mean_low[0], last.deviations[0]},
                              {last.mean[1], last.mean_low[1], last.deviations[1]}, count);
  return {leaf.mean, leaf.mean_low, leaf.deviations, 2 * count};
}

// Adjacent floats as doubles.
template <class R>
inline __attribute__((always_inline)) Simd<double> DoublesAt(const R* data) {
  if constexpr (std::same_as<R, double>) {
    return LoadSimd<double>(reinterpret_cast<const std::byte*>(data));
  } else {
#if defined(__AVX2__)
    return _mm256_cvtps_pd(_mm_loadu_ps(data));
#else
    Simd<double> x;
    for (std::uint32_t j = 0; j < kSimdDoubles; ++j)
      x[j] = Load<R>(reinterpret_cast<const std::byte*>(data), j);
    return x;
#endif
  }
}

// Adds the columns of each lane in pairs, as FoldVectors does.
template <std::uint32_t kCount>
inline __attribute__((always_inline)) void AddVectors(const double* columns, double* lanes) {
#if defined(__AVX2__)
  if constexpr (kCount > kLanes) {
    double pairs[kCount / 2];
    for (std::uint32_t i = 0; i < kCount; i += 2 * kSimdDoubles) {
      const __m256d crossed =
          _mm256_hadd_pd(_mm256_loadu_pd(columns + i), _mm256_loadu_pd(columns + i + kSimdDoubles));
      _mm256_storeu_pd(pairs + i / 2, _mm256_permute4x64_pd(crossed, 0xd8));  // in the order 0, 2, 1, 3
    }
    AddVectors<kCount / 2>(pairs, lanes);
  } else {
    std::memcpy(lanes, columns, kLanes * sizeof(double));
  }
#else
  FoldVectors<kCount>(
      columns, [](double a, double b) { return a + b; }, lanes);
#endif
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
