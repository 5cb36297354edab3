// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds the table entry with an operator family's segment kernels. CMake generates one source file per
// family, which instantiates this template (kernels/row.in).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/segments/exact_segment_kernel.cuh"
#include "kernels/cuda/segments/segment_kernel.cuh"
#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// `Op` is the operator over 64-bit elements, `Narrow` the same operator over 32-bit elements, which the
// register kernel reads directly.
template <Operator Op, Operator Narrow>
constexpr SegmentEntry SegmentEntryOf() {
  SegmentEntry entry;
  entry.state_bytes = sizeof(typename Op::State);
  if constexpr (AccumulatingOperator<Op>) {
    entry.launch = LaunchSegments<Op, ExactSegmentKernel<Op>>;
  } else if constexpr (FoldsInRegisters<Op>) {
    entry.launch = LaunchSegments<Op, SegmentKernel<Op, Narrow, Op>>;
    entry.has_registers = true;
  } else {
    entry.launch = LaunchSegments<Op, SegmentKernel<Op>>;
  }
  // The leaf states of integers pack positions into as few bits as a leaf of 64-bit integers needs, so a leaf
  // of narrower elements may not hold more elements than that.
  const bool is_limited = Moves<Op> && IntegerElement<typename Op::Element>;
  if (is_limited) entry.leaf_elements = kLeafBytes / sizeof(typename Op::Element);
  return entry;
}

template <template <class, bool> class Family>
constexpr SegmentFunctionRow MakeSegmentRow(ScalarFamily<Family>) {
  SegmentFunctionRow row;
  const auto entry = [&row](WideKind kind) -> SegmentEntry& { return row[static_cast<int>(kind)]; };
  if constexpr (kSupports<Family, std::uint64_t, false>) {
    entry(WideKind::kUnsigned) = SegmentEntryOf<Family<std::uint64_t, false>, Family<std::uint32_t, false>>();
    using Signed = Family<std::int64_t, false>;
    if constexpr (std::is_same_v<typename SameBytesOf<Signed>::Element, std::uint64_t>) {
      entry(WideKind::kSigned) =
          entry(WideKind::kUnsigned);  // same bits; the result is narrowed to the element type
    } else {
      entry(WideKind::kSigned) = SegmentEntryOf<Signed, Family<std::int32_t, false>>();
    }
  }
  if constexpr (kSupports<Family, double, false>) {
    using Plain = Family<double, false>;
    using Ignoring = Family<double, true>;
    entry(WideKind::kFloat) = SegmentEntryOf<Plain, Family<float, false>>();
    if constexpr (!std::is_same_v<ReducerOf<Plain>, Plain> &&
                  std::is_same_v<ReducerOf<Ignoring>, ReducerOf<Plain>>) {
      entry(WideKind::kFloatIgnoringNan) = entry(WideKind::kFloat);
    } else {
      entry(WideKind::kFloatIgnoringNan) = SegmentEntryOf<Ignoring, Family<float, true>>();
    }
  }
  return row;
}
template <class Family>
constexpr SegmentFunctionRow MakeSegmentRow(Family) {
  return {};  // operators over whole matrices have no segment kernels
}

template <class Family>
const SegmentFunctionRow& SegmentRowOf() {
  static constexpr SegmentFunctionRow kRow = MakeSegmentRow(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cuda
