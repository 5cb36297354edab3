// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/segments/rows.h"

#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cuda {

// Defined by the generated sources, one per family.
template <class Family>
const SegmentRow& SegmentRowOf();

namespace {

template <class... Families>
std::array<const SegmentRow*, sizeof...(Families)> AllRows(TypeList<Families...>) {
  return {&SegmentRowOf<Families>()...};
}

}  // namespace

std::span<const SegmentRow* const> SegmentRows() {
  static const auto rows = AllRows(OperatorList());
  return rows;
}

}  // namespace warpfold::kernels::cuda
