// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A superaccumulator (operators/superaccumulator.h) in shared memory. Several threads add to it at once, with
// atomic additions: those of a block for its unit, those of a single warp for an edge leaf or a segment.
#pragma once

#include <cstdint>

#include "kernels/geometry.h"
#include "kernels/operators/superaccumulator.h"

namespace warpfold::kernels::cuda {

template <FloatElement T>
class ExactDigits {
 public:
  // The threads of a warp call this and Take together; barriers are the caller's.
  __device__ void Clear(std::uint32_t lane) {
    for (std::uint32_t i = lane; i < kDigits<T>; i += kLanes) digits_[i] = 0;
    if (lane == 0) special_ = 0;
  }

  __device__ void Add(double x) {
    if (IsFinite(x)) {
      if (x != 0) Add(DigitsOf<T>(x));
    } else {
      atomicOr(&special_, SpecialOf(x));
    }
  }
  // count x 2^exponent.
  __device__ void Add(std::int64_t count, int exponent) {
    const std::uint64_t magnitude = count < 0 ? -static_cast<std::uint64_t>(count) : count;
    Add(DigitsOf<T>(magnitude, count < 0, exponent));
  }

  // Writes the sum to `out`, from one thread, and clears it.
  __device__ void Take(std::uint32_t lane, ExactSumState<T>* out) {
    if (lane == 0) *out = Carried<T>(digits_, special_);
    __syncwarp();
    Clear(lane);
    __syncwarp();
  }

 private:
  __device__ void Add(const DigitTriple& triple) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&digits_[triple.first + i]),
                static_cast<unsigned long long>(triple.digits[i]));
    }
  }

  std::int64_t digits_[kDigits<T>];
  std::uint32_t special_;
};

}  // namespace warpfold::kernels::cuda
