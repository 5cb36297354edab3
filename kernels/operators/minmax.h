// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest element in one pass, as min and max define them.
#pragma once

#include "kernels/operators/extremum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Minmax;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Minmax<T, kIgnoreNan> {
  using Least = Extremum<T, kIgnoreNan, /*kMax=*/false>;
  using Greatest = Extremum<T, kIgnoreNan, /*kMax=*/true>;
  struct State {
    Key<T> min;
    Key<T> max;
  };
  using Element = T;
  using LeafState = State;
  static constexpr const char* kName = "minmax";
  static constexpr const char* kFields[] = {"min", "max"};
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kAnyOrder = true;

  WARPFOLD_FN State Lift(T x, std::uint32_t offset) const {
    return {Least{}.Lift(x, offset), Greatest{}.Lift(x, offset)};
  }
  WARPFOLD_FN State Combine(State a, State b) const {
    return {Least{}.Combine(a.min, b.min), Greatest{}.Combine(a.max, b.max)};
  }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {Least::kWorst, Greatest::kWorst}; }

  bool IsPossible(State s, std::uint64_t first, std::uint64_t count) const {
    if (!Least{}.IsPossible(s.min, first, count) || !Greatest{}.IsPossible(s.max, first, count)) return false;
    if constexpr (FloatElement<T>) {  // a NaN takes both places, or neither if it is ignored
      constexpr Key<T> kMinOfNan = kIgnoreNan ? Least::kWorst : Least::kBest;
      constexpr Key<T> kMaxOfNan = kIgnoreNan ? Greatest::kWorst : Greatest::kBest;
      if (s.min == kMinOfNan || s.max == kMaxOfNan) return s.min == kMinOfNan && s.max == kMaxOfNan;
    }
    return count == 1 ? s.min == s.max : s.min <= s.max;
  }

  WARPFOLD_FN Outcome FinishField(const State& s, std::uint64_t count, std::uint32_t field) const {
    return field == 0 ? Least{}.Finish(s.min, count) : Greatest{}.Finish(s.max, count);
  }
};

}  // namespace warpfold::kernels
