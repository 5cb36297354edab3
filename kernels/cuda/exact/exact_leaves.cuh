// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp sums leaves exactly. As an exact sum does not depend on the order, nothing here preserves it.
//
//   element -> lane:  narrower types: the elements of a leaf, as one double, exact if their exponents are
//                     near each other (float16: always); float64: each element by itself
//   lane -> bins:     a few doubles in registers (operators/exact_bins.h)
//   bins -> digits:   the limbs of a superaccumulator, in shared memory, every kLeavesPerBins leaves and at
//                     the end of a run: the block's for a unit, the warp's own for an edge leaf
//
// If exponents differ too much, elements of narrower types go to the bins one by one, and those of float64 go
// directly to the digits: this is slow, and equally exact.
#pragma once

#include <cstdint>

#include "kernels/cuda/exact/exact_digits.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/exact_bins.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <AccumulatingOperator Op>
class ExactLeaves {
 public:
  using T = typename Op::Element;
  static constexpr std::uint32_t kLeafElements = kLeafBytes / sizeof(T);

  __device__ ExactLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  // Begins to load the full leaf with which the next AddRun starts.
  __device__ __forceinline__ void Prefetch(std::uint64_t leaf) {
    const auto* rows = reinterpret_cast<const uint4*>(range_.data + Offset(leaf)) + lane_;
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) vectors_[row] = __ldcs(rows + row * kLanes);
  }

  // Adds the full leaves [first, first + leaves), the first of which has been prefetched. Ends by prefetching
  // leaf `next`.
  __device__ __forceinline__ void AddRun(std::uint64_t first, std::uint32_t leaves, std::uint64_t next,
                                         ExactDigits<T>& digits) {
    for (std::uint32_t i = 0; i < leaves; i += kLeavesPerBins) {
      Bins bins(Top());
      const std::uint32_t end = min(i + kLeavesPerBins, leaves);
      for (std::uint32_t j = i; j < end; ++j) {
        const bool added = AddLane(bins);
        Prefetch(j + 1 < leaves ? first + j + 1 : next);
        if (!added) AddSlowly(first + j, bins, digits);
      }
      Empty(bins, digits);
    }
  }

  // Adds one leaf, which may be short.
  __device__ __forceinline__ void AddEdge(std::uint64_t leaf, ExactDigits<T>& digits) {
    if (range_.element_count - Offset(leaf) / sizeof(T) >= kLeafElements) {
      Prefetch(leaf);
    } else {
      LoadShort(leaf);
    }
    Bins bins(Top());
    if (!AddLane(bins)) AddSlowly(leaf, bins, digits);
    Empty(bins, digits);
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);
  static constexpr std::uint32_t kLaneElements = kLeafRows * kVector;
  // float64: three bins, at the magnitude of the numbers. Narrower types: enough for any sum of a lane's
  // elements.
  static constexpr bool kNarrow = sizeof(T) < 8;
  static constexpr int kTop = (std::is_same_v<T, Float16> ? 16 : 128) + static_cast<int>(Log2(kLaneElements));
  static constexpr int kBitsOfSums = kTop - kUnitExponent<T>;
  using Bins = ExactBins<kNarrow ? (kBitsOfSums + 43) / ExactBins<1>::kBits : 3>;
  static constexpr std::uint32_t kLeavesPerBins = Bins::kMaxAddends / kLaneElements;

  __device__ __forceinline__ std::uint64_t Offset(std::uint64_t leaf) const {
    return (leaf - range_.first_leaf) * kLeafBytes;
  }

  // Zeros, which add nothing, take the place of elements that do not exist.
  __device__ __forceinline__ void LoadShort(std::uint64_t leaf) {
    const std::uint64_t skipped = Offset(leaf) / sizeof(T);
    const T* const elements = reinterpret_cast<const T*>(range_.data) + skipped;
    const auto count = static_cast<std::uint32_t>(range_.element_count - skipped);
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) {
      T vector[kVector];
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; ++c) {
        const std::uint32_t i = row * kRowElements + lane_ * kVector + c;
        vector[c] = i < count ? elements[i] : T{};
      }
      std::memcpy(&vectors_[row], vector, sizeof vector);
    }
  }

  // Calls `visit` with what each of this lane's elements adds.
  template <class Visit>
  __device__ __forceinline__ void ForEachAddend(const Visit& visit) const {
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) {
      T elements[kVector];
      std::memcpy(elements, &vectors_[row], sizeof elements);
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; ++c) visit(elements[c], row * kVector + c);
    }
  }

  // The top of bins that can hold the run's numbers, if these are similar to those of the loaded leaf.
  __device__ __forceinline__ int Top() const {
    if constexpr (kNarrow) return kTop;
    std::uint32_t largest = 0;
    ForEachAddend([&](T x, std::uint32_t) {
      const double addend = op_.Addend(x);
      largest = max(largest, IsFinite(addend) ? UpperHalf(addend) : 0u);
    });
    return TopFor(BitCast<double>(std::uint64_t{MaxOfWarp(largest)} << 32));
  }

  // Adds this lane's elements of the loaded leaf to the bins; returns false, and leaves the bins as they
  // were, if the elements have to be added slowly.
  __device__ __forceinline__ bool AddLane(Bins& bins) const {
    if constexpr (kNarrow) {
      const ExactDouble lane = LaneSum();
      if (lane.exact) bins.Add(lane.value);
      return lane.exact;
    } else {
      Bins sum = bins;
      bool fits = true;
      std::uint32_t largest = 0;
      ForEachAddend([&](T x, std::uint32_t) {
        const double addend = op_.Addend(x);
        fits = sum.Add(addend) && fits;
        largest = max(largest, UpperHalf(addend));
      });
      fits = fits && largest < static_cast<std::uint32_t>(bins.top() + 1023) << 20;
      if (fits) bins = sum;
      return fits;
    }
  }

  struct ExactDouble {
    double value;
    bool exact;
  };

  // The sum of this lane's elements of the loaded leaf. All are multiples of the smallest one's lowest bit
  // and smaller than twice the largest's highest: if these are near each other, no partial sum has more than
  // 53 bits, and none is rounded.
  __device__ __forceinline__ ExactDouble LaneSum() const requires kNarrow {
    constexpr std::uint32_t kFractionBits = std::is_same_v<T, Bfloat16> ? 7 : 23;
    constexpr std::uint32_t kSpan = 53 - 1 - Log2(kLaneElements) - kFractionBits;
    double sums[4] = {};
    std::uint32_t largest = 0;
    std::uint32_t smallest = ~0u;  // minus one, so that zeros, which have no bits, come last
    ForEachAddend([&](T x, std::uint32_t i) {
      const float addend = op_.Addend(x);
      sums[i % 4] += double{addend};
      if constexpr (!std::is_same_v<T, Float16>) {
        const std::uint32_t magnitude = BitCast<std::uint32_t>(addend) & 0x7fffffffu;
        largest = max(largest, magnitude);
        smallest = min(smallest, magnitude - 1);
      }
    });
    const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    // A float16 has 40 bits of magnitude, so that the sum of 64 of them is always exact.
    if constexpr (std::is_same_v<T, Float16>) return {sum, IsFinite(sum)};
    const std::uint32_t highest = largest >> 23;
    const std::uint32_t lowest = (smallest + 1) >> 23;
    return {sum, highest < 255 && highest - lowest <= kSpan};
  }

  // Adds this lane's elements one by one. They are read again, because registers cannot be indexed.
  __device__ __forceinline__ void AddSlowly(std::uint64_t leaf, Bins& bins, ExactDigits<T>& digits) const {
    const T* const elements = reinterpret_cast<const T*>(range_.data);
    const std::uint64_t first = Offset(leaf) / sizeof(T) + lane_ * kVector;
    if constexpr (kNarrow) {
      for (std::uint64_t row = first; row < first + kLeafElements; row += kRowElements) {
        for (std::uint64_t i = row; i < row + kVector && i < range_.element_count; ++i) {
          const double addend = op_.Addend(elements[i]);
          if (IsFinite(addend)) {
            bins.Add(addend);
          } else {
            digits.Add(addend);
          }
        }
      }
    } else {
      AddToDigits(op_, elements, first, range_.element_count, digits);
    }
  }
  // This is not inlined, and so it takes copies of the members: anything that a called function reaches
  // through `this` would be put into memory.
  static __device__ __noinline__ void AddToDigits(const Op op, const T* elements, std::uint64_t first,
                                                  std::uint64_t count, ExactDigits<T>& digits) {
    for (std::uint64_t row = first; row < first + kLeafElements; row += kRowElements) {
      for (std::uint64_t i = row; i < row + kVector && i < count; ++i) digits.Add(op.Addend(elements[i]));
    }
  }

  // Adds the bins of all lanes.
  __device__ __forceinline__ void Empty(const Bins& bins, ExactDigits<T>& digits) const {
#pragma unroll
    for (int i = 0; i < Bins::kBins; ++i) {
      std::int64_t count = bins.Count(i);
      for (int distance = kLanes / 2; distance > 0; distance /= 2) count += ShuffleXor(count, distance);
      if (lane_ == 0 && count != 0) digits.Add(count, bins.LowestBit(i));
    }
  }

  const Op op_;
  const Range range_;
  const std::uint32_t lane_;
  uint4 vectors_[kLeafRows];  // this lane's part of the leaf loaded last
};

}  // namespace warpfold::kernels::cuda
