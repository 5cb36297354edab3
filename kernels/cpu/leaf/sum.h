// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of integers, of float16 and of bfloat16.
#pragma once

#include "kernels/cpu/leaf/half_sum.h"
#include "kernels/cpu/leaf/integer_sum.h"
#include "kernels/cpu/leaf/nonzero_count.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// float32 and float64 use the plain method.
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Sum<T, kIgnoreNan>> : PlainLeaf<Sum<T, kIgnoreNan>> {};

template <IntegerElement T>
struct ScalarLeaf<Sum<T, false>> {
  using LeafState = typename Sum<T, false>::LeafState;

  static LeafState Reduce(const Sum<T, false>&, const std::byte* data, std::uint64_t count) {
    if constexpr (std::same_as<T, Boolean>) return CountOfNonzero<T, false>(data, count);
    // Signed numbers with their sign flipped are unsigned ones that are greater by kBias.
    constexpr auto kBias =
        kIsSigned<T> ? static_cast<Bits<T>>(Bits<T>{1} << (sizeof(T) * 8 - 1)) : Bits<T>{0};
    const auto biased = [](auto x) { return x ^ kBias; };
    return static_cast<LeafState>(UnsignedSum<T>(data, count, biased) - Uint128{kBias} * count);
  }
};

template <HalfElement T, bool kIgnoreNan>
struct ScalarLeaf<Sum<T, kIgnoreNan>> {
  static double Reduce(const Sum<T, kIgnoreNan>& op, const std::byte* data, std::uint64_t count) {
    const auto kept = [](const Simd<std::uint16_t>& x) { return WithoutIgnored<T, kIgnoreNan>(x); };
    return ReduceHalves(op, data, count, kept);
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
