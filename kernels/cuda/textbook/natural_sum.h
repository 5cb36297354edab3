// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of int32 as in the published reductions: the accumulator is 32 bits wide like the elements, and
// wraps. A request that asks for WRAP gets it, because the low 32 bits are the whole result of that request.
// Every other request gets Sum, whose states cannot overflow (docs/adr/0079).
#pragma once

#include <cstdint>

#include "kernels/operators/portable.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels::cuda::textbook {

struct NaturalSum {
  using Element = std::int32_t;
  using State = std::uint32_t;  // unsigned, because the overflow of signed integers is undefined
  using LeafState = State;
  static constexpr const char* kName = "sum";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kStatesAreElements = true;

  WARPFOLD_FN State Lift(Element x, std::uint32_t) const { return static_cast<State>(x); }
  WARPFOLD_FN State Combine(State a, State b) const { return a + b; }
  WARPFOLD_FN State Widen(State state, std::uint64_t) const { return state; }
  WARPFOLD_FN State LeafIdentity() const { return 0; }
  WARPFOLD_FN State Identity() const { return 0; }
};

// The natural form of a family's operator; void if there is none.
template <class Op>
struct NaturalOf {
  using type = void;
};
template <>
struct NaturalOf<Sum<std::int32_t, false>> {
  using type = NaturalSum;
};

}  // namespace warpfold::kernels::cuda::textbook
