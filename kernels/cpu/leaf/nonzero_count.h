// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many of a leaf's elements differ from zero, counted in lanes as narrow as an element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/vectors.h"
#include "kernels/operators/count_nonzero.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <AnyElement T, bool kIgnoreNan>
std::uint32_t CountOfNonzero(const std::byte* data, std::uint64_t count) {
  // Signed, because x86 compares only signed lanes.
  using Lane = std::make_signed_t<Bits<T>>;
  constexpr std::uint32_t kLanesOfVector = kSimdBytes / sizeof(T);
  constexpr std::uint64_t kMaxVectors = 127;  // before a count fills a lane of 8 bits
  std::uint64_t vectors = count / kLanesOfVector;
  std::uint32_t nonzero = 0;
  std::uint64_t i = 0;
  while (vectors > 0) {
    const std::uint64_t some = std::min(vectors, kMaxVectors);
    Simd<Lane> counts = {};
    for (std::uint64_t k = 0; k < some; ++k) {
      Simd<Lane> x = LoadSimd<Lane>(data + (i + k * kLanesOfVector) * sizeof(T));
      if constexpr (FloatElement<T>) x &= kLargestKey<T>;  // without the sign
      // A comparison gives -1 where it is true.
      if constexpr (kIgnoreNan) {
        counts -= (x != 0) & (x <= static_cast<Lane>(kInfinityBits<T>));
      } else {
        counts -= x != 0;
      }
    }
    nonzero += SumOfLanes<std::uint32_t, Lane>(counts);
    vectors -= some;
    i += some * kLanesOfVector;
  }
  const CountNonzero<T, kIgnoreNan> op;
  for (; i < count; ++i) nonzero += op.Lift(Load<T>(data, i), 0);
  return nonzero;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
