// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces many segments in one call, for any operator over scalars.
//
// Compiled once per instruction set, as subtree.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/exact.h"
#include "kernels/cpu/row.h"
#include "kernels/cpu/subtree.h"
#include "kernels/segment_out.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// The state of a whole array.
template <Operator Op>
struct ArrayState {
  using T = typename Op::Element;
  static constexpr std::uint64_t kLeafElements = kLeafBytes / sizeof(T);

  static typename Op::State Of(const Op& op, const std::byte* data, std::uint64_t count) {
    if constexpr (AccumulatingOperator<Op>) {
      return SumExactly(op, data, count);
    } else {
      std::uint32_t level = 0;
      while (kLeafElements << level < count) ++level;
      if constexpr (Op::kCommutative) {
        return FoldScalars(op, data, count, 0, level);
      } else {
        return FoldOrdered(op, data, count, 0, level);
      }
    }
  }
};

template <Operator Op>
bool ReduceSegments(const OperatorParameters& parameters, const CpuSegments& segments,
                    const SegmentOut& out) {
  using Reducer = ReducerOf<Op>;
  const Op op = MakeOperator<Op>(parameters);
  const auto reducer = MakeOperator<Reducer>(parameters);
  const std::byte* data = segments.data;
  bool ok = true;
  for (std::uint64_t segment = segments.begin; segment < segments.end; ++segment) {
    const std::uint64_t count = segments.lengths != nullptr ? segments.lengths[segment] : segments.length;
    const auto state = count == 0 ? reducer.Identity() : ArrayState<Reducer>::Of(reducer, data, count);
    ok = FinishSegment(op, state, count, segment, out) && ok;
    data += count * sizeof(typename Op::Element);
  }
  return ok;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
