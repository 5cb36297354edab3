// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/textbook/rows.h"

#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cuda::textbook {

// Defined by the generated sources, one per family.
template <class Family>
const Row& RowOf();

namespace {

template <class... Families>
std::array<const Row*, sizeof...(Families)> AllRows(TypeList<Families...>) {
  return {&RowOf<Families>()...};
}

}  // namespace

std::span<const Row* const> Rows() {
  static const auto rows = AllRows(OperatorList());
  return rows;
}

}  // namespace warpfold::kernels::cuda::textbook
