// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/rows.h"

#include <type_traits>

#include "kernels/cuda/rows.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::simt {

// Defined by the generated sources, one per family that is served.
template <class Family>
const Row& RowOf();

namespace {

template <class Family, class... Served>
const Row* RowIfServed(TypeList<Served...>) {
  static constexpr Row kNothing;
  if constexpr ((std::is_same_v<Family, Served> || ...)) return &RowOf<Family>();
  return &kNothing;
}

template <class... Families_>
std::array<const Row*, sizeof...(Families_)> AllRows(TypeList<Families_...>) {
  return {RowIfServed<Families_>(Families())...};
}

}  // namespace

std::span<const Row* const> Rows() {
  static const auto rows = AllRows(OperatorList());
  return rows;
}

}  // namespace warpfold::kernels::simt
