// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces a subtree for operators with an accumulator: their states do not depend on the order.
//
// Compiled once per instruction set, as subtree.h.
#pragma once

#include "kernels/cpu/subtree.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <AccumulatingOperator Op>
void ReduceExactly(const OperatorParameters& parameters, std::uint32_t, const std::byte* data,
                   std::uint64_t count, std::uint64_t, std::uint32_t, std::byte* out) {
  using T = typename Op::Element;
  constexpr std::uint64_t kBlock = 1 << 16;  // few enough for the accumulator's carries
  const Op op = MakeOperator<Op>(parameters);
  typename Op::State state = op.Identity();
  for (std::uint64_t begin = 0; begin < count; begin += kBlock) {
    const std::uint64_t end = count - begin < kBlock ? count : begin + kBlock;
    typename Op::Accumulator sum;
    for (std::uint64_t i = begin; i < end; ++i) sum.Add(double{op.Addend(Load<T>(data, i))});
    state = op.Combine(state, sum.Sum());
  }
  std::memcpy(out, &state, sizeof state);
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
