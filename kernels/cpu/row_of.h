// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's row of one family, in the namespace WARPFOLD_ISA. cmake generates one source file per family
// and instruction set that instantiates it (kernels/row.in).
#pragma once

#include "kernels/cpu/end.h"
#include "kernels/cpu/exact.h"
#include "kernels/cpu/row.h"
#include "kernels/cpu/segments.h"
#include "kernels/cpu/subtree.h"
#include "kernels/operators/rows.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class Op>
constexpr SubtreeFunction OrderedFunction() {
  if constexpr (EndOperator<Op>) {
    return ReduceEnd<Op>;
  } else {
    return ReduceLeaves<Op, OrderedLeaf<Op>>;
  }
}

struct Functions {
  static constexpr bool Serves(ElementType, bool) { return true; }
  static constexpr bool ServesWhole(ElementType, int) { return true; }
  template <class Op>
  static constexpr SubtreeFunction kScalars = ReduceLeaves<Op, ScalarLeaf<Op>>;
  template <class Op>
  static constexpr SubtreeFunction kExact = ReduceExactly<Op>;
  template <class Op>
  static constexpr SubtreeFunction kEntrywise = ReduceEntrywise<Op>;
  template <class Op>
  static constexpr SubtreeFunction kOrdered = OrderedFunction<Op>();
  template <class Op>
  static constexpr SubtreeFunction kLarge = ReduceLarge<Op>;
};

// Segments are reduced by the function that reduces ranges.
template <class Op>
inline constexpr SegmentsFunction kSegments = ReduceSegments<Op, ScalarFunction<Functions, ReducerOf<Op>>()>;

// Each operator finishes its own segments, also where another one's states serve it.
template <template <class, bool> class Family>
constexpr void AddSegments(ScalarFamily<Family>, Row& row) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupports<Family, T, false>) row.segments[kType][0] = kSegments<Family<T, false>>;
    if constexpr (kSupports<Family, T, true>) {
      row.segments[kType][1] = kSegments<Family<T, true>>;
    } else {
      row.segments[kType][1] = row.segments[kType][0];  // integers have no NaN to ignore
    }
  });
}
template <class Family>
constexpr void AddSegments(Family, Row&) {}  // operators over whole matrices have none

template <class Family>
constexpr Row FullRow() {
  Row row = MakeRow<Row, Functions>(Family());
  AddSegments(Family(), row);
  return row;
}

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = FullRow<Family>();
  return kRow;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
