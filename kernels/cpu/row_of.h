// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's row of one family, in the namespace WARPFOLD_ISA. cmake generates one source file per family
// and instruction set that instantiates it (row.cc.in).
#pragma once

#include "kernels/cpu/exact.h"
#include "kernels/cpu/row.h"
#include "kernels/cpu/subtree.h"
#include "kernels/operators/make_row.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

struct Loops {
  template <class Op>
  static constexpr SubtreeFunction kScalars = ReduceScalars<Op>;
  template <class Op>
  static constexpr SubtreeFunction kExact = ReduceExactly<Op>;
  template <class Op>
  static constexpr SubtreeFunction kEntrywise = ReduceEntrywise<Op>;
  template <class Op>
  static constexpr SubtreeFunction kOrdered = ReduceOrdered<Op>;
  template <class Op>
  static constexpr SubtreeFunction kLarge = ReduceLarge<Op>;
};

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow<Row, Loops>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
