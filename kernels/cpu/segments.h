// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces many segments in one call, for any operator over scalars.
//
// Compiled once per instruction set, as subtree.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/row.h"
#include "kernels/operators/traits.h"
#include "kernels/segment_out.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// kReduce is the function that reduces arrays with the operator whose states serve Op.
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

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
