// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of a whole leaf of float16 or bfloat16 in canonical order, without converting them: an element's
// bits, moved to the place that they have in a double, are the element times a power of two, subnormals
// included. Sums of such doubles round as the sums of the elements do. A scaled sum can be subnormal although
// the true sum is not; it then has at most ten significant bits, so nothing is rounded (as long as the
// processor does not flush subnormals to zero).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/cpu/tuning.h"
#include "kernels/cpu/vectors.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/half_as_double.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// The sums of a block of columns, whose rows have kBlockBytes each.
template <HalfElement T>
class HalfBlock {
 public:
  static constexpr std::uint32_t kBlockBytes = kHalfVectors * kSimdBytes;

  // One row: add(sum, x) for every vector of doubles.
  template <class Map, class Add>
  inline __attribute__((always_inline)) void Take(const std::byte* row, const Map& map, const Add& add) {
    constexpr int kShift = HalfAsDouble<T>::kShift;
    constexpr std::uint64_t kMask = HalfAsDouble<T>::kMask;
    for (std::uint32_t i = 0; i < kVectors; ++i) {
      const Simd<std::uint16_t> x = map(LoadSimd<std::uint16_t>(row + i * kSimdBytes));
      const Simd<std::uint16_t> magnitude = x + x;
      largest_ = magnitude > largest_ ? magnitude : largest_;
      // The sign is copied into the bits that kMask clears.
      const auto even = reinterpret_cast<Simd<std::uint64_t>>(TimesPair<1 << (16 - kShift), 0>(x));
      const auto odd = reinterpret_cast<Simd<std::uint64_t>>(TimesPair<0, 1 << (16 - kShift)>(x));
      add(sums_[i][0], reinterpret_cast<Simd<double>>((even << 32) & kMask));
      add(sums_[i][1], reinterpret_cast<Simd<double>>((odd << 32) & kMask));
      add(sums_[i][2], reinterpret_cast<Simd<double>>(even & kMask));
      add(sums_[i][3], reinterpret_cast<Simd<double>>(odd & kMask));
    }
  }

  // The sums of four adjacent columns each.
  inline __attribute__((always_inline)) void StoreFours(double* fours) const {
    for (std::uint32_t i = 0; i < kVectors; ++i) {
      const Simd<double> sum = (sums_[i][0] + sums_[i][1]) + (sums_[i][2] + sums_[i][3]);
      std::memcpy(fours + i * (kSimdBytes / sizeof(double)), &sum, sizeof sum);
    }
  }

  // Whether all elements so far are finite numbers.
  bool AllFinite() const {
    std::uint16_t largest = 0;
    for (std::uint32_t i = 0; i < kSimdBytes / sizeof(T); ++i) {
      largest = largest_[i] > largest ? largest_[i] : largest;
    }
    return largest < 2 * kInfinityBits<T>;
  }

 private:
  static constexpr std::uint32_t kVectors = kBlockBytes / kSimdBytes;
  Simd<double> sums_[kVectors][4];  // of columns 4 j + 0, 4 j + 1, ...
  Simd<std::uint16_t> largest_ = {};
};

// The sum of map(x), which takes vectors of elements' bits; NaN if any is infinite or NaN. It goes down the
// columns, a few at a time, whose sums stay in registers; because prefetchers do not follow this walk, it
// prefetches the next leaf in the order of memory. Beyond the array's end that is harmless.
template <HalfElement T, class Map>
inline double SumOfFiniteHalves(const std::byte* data, const Map& map) {
  using Block = HalfBlock<T>;
  constexpr std::uint32_t kBlocks = kRowBytes / Block::kBlockBytes;
  constexpr std::uint32_t kFours = kColumns<T> / 4;
  double fours[kFours];
  Block block;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const std::byte* row = data + i * Block::kBlockBytes;
    const std::byte* ahead = data + kLeafBytes + i * Block::kBlockBytes * kLeafRows;
    __builtin_prefetch(ahead);
    block.Take(row, map, [](Simd<double>& sum, const Simd<double>& x) { sum = x; });
    // This is not unrolled: with all rows at once GCC runs out of registers.
#pragma GCC unroll 1
    for (int r = 1; r < kLeafRows; ++r) {
      row += kRowBytes;
      ahead += Block::kBlockBytes;
      __builtin_prefetch(ahead);
      block.Take(row, map, [](Simd<double>& sum, const Simd<double>& x) { sum += x; });
    }
    block.StoreFours(fours + i * (kFours / kBlocks));
  }
  if (!block.AllFinite()) return std::numeric_limits<double>::quiet_NaN();
  double lanes[kLanes];
  const auto add = [](double a, double b) { return a + b; };
  FoldVectors<kFours>(fours, add, lanes);
  return FoldLanes(lanes, add) * HalfAsDouble<T>::kUnit;
}

// A leaf of `Op`, which sums map(x).
template <class Op, class Map>
inline double ReduceHalves(const Op& op, const std::byte* data, std::uint64_t count, const Map& map) {
  using T = typename Op::Element;
  if (count == kLeafBytes / sizeof(T)) {
    const double sum = SumOfFiniteHalves<T>(data, map);
    if (!IsNan(sum)) return sum;
  }
  return ColumnsLeaf<Op>::Reduce(op, data, count);
}

// The elements' bits, with 0 for NaN if it is ignored.
template <HalfElement T, bool kIgnoreNan>
inline __attribute__((always_inline)) Simd<std::uint16_t> WithoutIgnored(const Simd<std::uint16_t>& x) {
  if constexpr (kIgnoreNan) {
    const auto magnitude = reinterpret_cast<Simd<std::int16_t>>(x & 0x7fff);
    return x &
           reinterpret_cast<Simd<std::uint16_t>>(magnitude <= static_cast<std::int16_t>(kInfinityBits<T>));
  } else {
    return x;
  }
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
