// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exact sum of a leaf's integers, without widening each one: a lane of twice their width holds two of
// them, as a low and a high half, and also has room for the sum of a whole leaf's halves. Elements of 64 bits
// are summed by halves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/vectors.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// The sum of map(x) over the vectors of unsigned elements, `bytes` of them, a multiple of kSimdBytes and no
// more than a leaf.
template <class T, class Map>
inline __attribute__((always_inline)) Uint128 SumOfVectors(const std::byte* data, std::uint64_t bytes,
                                                           const Map& map) {
  using Lane = TwiceAsWide<T>;
  constexpr int kHalf = sizeof(Lane) * 4;
  static_assert(kLeafBytes / kSimdBytes <= std::uint64_t{1} << kHalf, "a lane holds a leaf's sum of halves");
  Simd<Lane> all = {};
  Simd<Lane> high = {};
  for (std::uint64_t i = 0; i < bytes; i += kSimdBytes) {
    const auto x = reinterpret_cast<Simd<Lane>>(map(LoadSimd<Bits<T>>(data + i)));
    all += x;
    high += x >> kHalf;
  }
  const Simd<Lane> low = all - (high << kHalf);  // whatever overflows in `all` overflows here, too
  if constexpr (sizeof(T) == 8) {
    return SumOfLanes<Uint128, Lane>(low) + (SumOfLanes<Uint128, Lane>(high) << kHalf);
  } else {
    return SumOfLanes<std::uint64_t, Lane>(low) + SumOfLanes<std::uint64_t, Lane>(high);
  }
}

// The sum of `count` unsigned map(x), where x are the elements' bits; no more than a leaf has. map takes
// vectors and, after the last whole one, single elements.
template <class T, class Map>
inline __attribute__((always_inline)) Uint128 UnsignedSum(const std::byte* data, std::uint64_t count,
                                                          const Map& map) {
  if (count == kLeafBytes / sizeof(T)) return SumOfVectors<T>(data, kLeafBytes, map);
  const std::uint64_t bytes = count * sizeof(T) / kSimdBytes * kSimdBytes;
  Uint128 sum = SumOfVectors<T>(data, bytes, map);
  for (std::uint64_t i = bytes / sizeof(T); i < count; ++i) {
    sum += static_cast<Bits<T>>(map(Load<Bits<T>>(data, i)));
  }
  return sum;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
