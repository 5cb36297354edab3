// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of the magnitudes of integers, of float16 and of bfloat16.
#pragma once

#include "kernels/cpu/leaf/half_sum.h"
#include "kernels/cpu/leaf/integer_sum.h"
#include "kernels/cpu/leaf/nonzero_count.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/operators/l1_norm.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// float32 and float64 use the plain method.
template <class T, bool kIgnoreNan>
struct ScalarLeaf<L1Norm<T, kIgnoreNan>> : PlainLeaf<L1Norm<T, kIgnoreNan>> {};

template <IntegerElement T>
struct ScalarLeaf<L1Norm<T, false>> {
  using LeafState = typename L1Norm<T, false>::LeafState;

  static LeafState Reduce(const L1Norm<T, false>&, const std::byte* data, std::uint64_t count) {
    if constexpr (std::same_as<T, Boolean>) {
      return CountOfNonzero<T, false>(data, count);
    } else {
      return static_cast<LeafState>(UnsignedSum<T>(data, count, Magnitude));
    }
  }

 private:
  // The magnitude of an element, or of each in a vector: for a negative one, all bits are flipped, and 1 is
  // added.
  static constexpr auto Magnitude = [](auto x) {
    if constexpr (!kIsSigned<T>) {
      return x;
    } else {
      constexpr int kSign = sizeof(T) * 8 - 1;
      const auto negative = x >> kSign;
      return (x ^ -negative) + negative;
    }
  };
};

template <HalfElement T, bool kIgnoreNan>
struct ScalarLeaf<L1Norm<T, kIgnoreNan>> {
  static double Reduce(const L1Norm<T, kIgnoreNan>& op, const std::byte* data, std::uint64_t count) {
    const auto magnitude = [](const Simd<std::uint16_t>& x) {
      return WithoutIgnored<T, kIgnoreNan>(x) & 0x7fff;
    };
    return ReduceHalves(op, data, count, magnitude);
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
