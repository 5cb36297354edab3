// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Products of integers. Magnitudes are multiplied in vectors as long as no product can overflow: eight of 8
// bits, four of 16, two of 32. What remains is 512 factors of 64 bits, whatever the type, which are
// multiplied in eight chains, because a chain waits for each multiplication.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/cpu/tuning.h"
#include "kernels/geometry.h"
#include "kernels/operators/product.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// Floats use the plain method.
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Product<T, kIgnoreNan>> : PlainLeaf<Product<T, kIgnoreNan>> {};

template <IntegerElement T>
struct ScalarLeaf<Product<T, false>> {
  using Op = Product<T, false>;
  using LeafState = typename Op::LeafState;
  static constexpr std::uint64_t kElements = kLeafBytes / sizeof(T);

  static LeafState Reduce(const Op& op, const std::byte* data, std::uint64_t count) {
    if (count == kElements) return ReduceWhole(data);
    LeafState state = op.LeafIdentity();
    for (std::uint64_t i = 0; i < count; ++i) state = op.Combine(state, op.Lift(Load<T>(data, i), 0));
    return state;
  }

 private:
  static constexpr std::uint64_t kFactors = kLeafBytes / 8;
  static constexpr std::uint64_t kChains = kProductChains;

  static LeafState ReduceWhole(const std::byte* data) {
    Bits<T> magnitudes[kElements];
    Bits<T> signs = 0;
    Bits<T> zeros = 0;
    for (std::uint64_t i = 0; i < kElements; ++i) {
      const auto x = static_cast<Bits<T>>(ValueOf(Load<T>(data, i)));
      const auto sign = static_cast<Bits<T>>(kIsSigned<T> ? x >> (sizeof(T) * 8 - 1) : 0);
      magnitudes[i] = static_cast<Bits<T>>((x ^ -sign) + sign);
      signs ^= sign;
      zeros |= x == 0;
    }
    std::uint64_t factors[kFactors];
    Multiply<std::uint64_t, Bits<T>, kElements>(magnitudes, factors);
    static_assert(kFactors % kChains == 0);
    std::uint64_t products[kChains];
    std::fill_n(products, kChains, 1);
    std::uint64_t overflows[kChains] = {};
    for (std::uint64_t i = 0; i < kFactors; i += kChains) {
      for (std::uint64_t chain = 0; chain < kChains; ++chain) {
        const Uint128 product = Uint128{products[chain]} * factors[i + chain];
        products[chain] = static_cast<std::uint64_t>(product);
        overflows[chain] |= static_cast<std::uint64_t>(product >> 64);
      }
    }
    std::uint64_t magnitude = 1;
    std::uint64_t overflow = 0;
    for (std::uint64_t chain = 0; chain < kChains; ++chain) {
      const Uint128 product = Uint128{magnitude} * products[chain];
      magnitude = static_cast<std::uint64_t>(product);
      overflow |= static_cast<std::uint64_t>(product >> 64) | overflows[chain];
    }
    if (zeros != 0) return Op::LeafStateOf(0, 0, false);
    return Op::LeafStateOf(magnitude, static_cast<std::uint32_t>(signs), overflow != 0);
  }

  // Products of elements in the first and in the second half, twice as wide, until they have 64 bits.
  template <class Widest, class U, std::uint64_t kCount>
  static inline __attribute__((always_inline)) void Multiply(const U* from, Widest* factors) {
    if constexpr (sizeof(U) == sizeof(Widest)) {
      for (std::uint64_t i = 0; i < kCount; ++i) factors[i] = from[i];
    } else {
      using Wider = TwiceAsWide<U>;
      Wider products[kCount / 2];
      for (std::uint64_t i = 0; i < kCount / 2; ++i) {
        products[i] = static_cast<Wider>(Wider{from[i]} * Wider{from[i + kCount / 2]});
      }
      Multiply<Widest, Wider, kCount / 2>(products, factors);
    }
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
