// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// first and last on a CPU: they read one element after the other, from their end of a subtree, until one is
// present. Elements beyond it are not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/elements.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// A SubtreeFunction.
template <EndOperator Op>
void ReduceEnd(const OperatorParameters&, std::uint32_t, const std::byte* data, std::uint64_t count,
               std::uint64_t first, std::byte* out) {
  using T = typename Op::Element;
  const Op op;
  typename Op::State state = op.Identity();
  for (std::uint64_t i = 0; i < count && state.present == 0; ++i) {
    const T element = Load<T>(data, Op::kFromTheLeft ? i : count - 1 - i);
    state = op.Widen(op.Lift(element, 0), first);
  }
  std::memcpy(out, &state, sizeof state);
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
