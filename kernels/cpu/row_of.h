// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's row of one family, in the namespace WARPFOLD_ISA. CMake generates one source file per family and
// instruction set that instantiates it (kernels/row.in).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/end.h"
#include "kernels/cpu/exact.h"
#include "kernels/cpu/row.h"
#include "kernels/cpu/subtree.h"
#include "kernels/operators/rows.h"
#include "kernels/operators/traits.h"
#include "kernels/segment_out.h"

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

// Reduces segments one after the other, each with kReduce: the function that reduces ranges with the operator
// whose states serve Op.
template <Operator Op, SubtreeFunction kReduce>
bool ReduceSegments(const OperatorParameters& parameters, const CpuSegments& segments,
                    const SegmentOut& out) {
  const Op op = MakeOperator<Op>(parameters);
  const auto reducer = MakeOperator<ReducerOf<Op>>(parameters);
  const std::byte* data = segments.data;
  bool ok = true;
  for (std::uint64_t segment = segments.begin; segment < segments.end; ++segment) {
    const std::uint64_t count = segments.lengths != nullptr ? segments.lengths[segment] : segments.length;
    auto state = reducer.Identity();
    if (count > 0) kReduce(parameters, 1, data, count, 0, reinterpret_cast<std::byte*>(&state));
    ok = FinishSegment(op, state, count, segment, out) && ok;
    data += count * sizeof(typename Op::Element);
  }
  return ok;
}

template <class Op>
inline constexpr SegmentsFunction kSegments = ReduceSegments<Op, ScalarFunction<Functions, ReducerOf<Op>>()>;

// Each operator finishes its own segments, even if another operator's states serve it.
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
