// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces a subtree for operators with an accumulator: their states do not depend on the order.
//
// Compiled once per instruction set, like subtree.h.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/subtree.h"
#include "kernels/cpu/tuning.h"
#include "kernels/operators/exact_bins.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

using Bins = ExactBins<3>;
inline constexpr std::uint64_t kExactBlock = std::uint64_t{kExactLanes} * Bins::kMaxAddends;

// Adds a block of at most kExactBlock elements using bins (operators/exact_bins.h); returns false, and adds
// nothing, if their magnitudes differ too much for that.
template <AccumulatingOperator Op>
bool AddByBins(const Op& op, const std::byte* data, std::uint64_t count, typename Op::Accumulator& sum) {
  using T = typename Op::Element;
  constexpr int kBins = Bins::kBins;
  const auto addend = [&](std::uint64_t i) { return i < count ? double{op.Addend(Load<T>(data, i))} : 0.0; };
  // The bits of magnitudes, as integers, have the order of the magnitudes, and NaN comes last. The compiler
  // vectorises a maximum of integers, but not one of doubles.
  constexpr std::uint64_t kMagnitude = ~std::uint64_t{0} >> 1;
  std::int64_t largest = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = op.Addend(Load<T>(data, i));
    largest = std::max(largest, static_cast<std::int64_t>(BitCast<std::uint64_t>(x) & kMagnitude));
  }
  const int top = TopFor(BitCast<double>(largest));
  if (!(BitCast<double>(largest) < std::ldexp(1.0, top))) return false;

  double anchors[kBins];
  for (int b = 0; b < kBins; ++b) anchors[b] = Bins::Anchor(top, b);
  double bins[kBins][kExactLanes] = {};
  double rests[kExactLanes] = {};
  const auto add = [&](int lane, double x) {
    for (int b = 0; b < kBins; ++b) Bins::MovePiece(x, anchors[b], bins[b][lane]);
    rests[lane] += std::fabs(x);
  };
  std::uint64_t begin = 0;
  for (; begin + kExactLanes <= count; begin += kExactLanes) {
    for (int lane = 0; lane < kExactLanes; ++lane) {
      add(lane, double{op.Addend(Load<T>(data, begin + static_cast<std::uint64_t>(lane)))});
    }
  }
  for (int lane = 0; lane < kExactLanes; ++lane) add(lane, addend(begin + static_cast<std::uint64_t>(lane)));

  for (const double rest : rests) {
    if (rest != 0) return false;  // also for NaN
  }
  // Another process may have made an element too large in the meantime (kernels/memory.h).
  for (int b = 0; b < kBins; ++b) {
    const double most = std::ldexp(1.0, Bins::LowestBitOf(top, b) + 53);
    for (const double bin : bins[b]) {
      if (!(std::fabs(bin) <= most)) return false;
    }
  }
  for (int lane = 0; lane < kExactLanes; ++lane) {
    const Bins filled(top, {bins[0][lane], bins[1][lane], bins[2][lane]});
    for (int b = 0; b < kBins; ++b) sum.Add(filled.Count(b), filled.LowestBit(b));
  }
  return true;
}

// This is not inlined, so that ranges and segments share it.
template <AccumulatingOperator Op>
__attribute__((noinline)) void ReduceExactly(const OperatorParameters& parameters, std::uint32_t,
                                             const std::byte* data, std::uint64_t count, std::uint64_t,
                                             std::byte* out) {
  using T = typename Op::Element;
  const Op op = MakeOperator<Op>(parameters);
  typename Op::State state = op.Identity();
  while (count > 0) {
    typename Op::Accumulator sum;
    for (std::uint64_t block = 0; block < kExactBlocksPerSum && count > 0; ++block) {
      const std::uint64_t elements = count < kExactBlock ? count : kExactBlock;
      if (!AddByBins(op, data, elements, sum)) {
        for (std::uint64_t i = 0; i < elements; ++i) sum.Add(double{op.Addend(Load<T>(data, i))});
      }
      data += elements * sizeof(T);
      count -= elements;
    }
    state = op.Combine(state, sum.Sum());
  }
  std::memcpy(out, &state, sizeof state);
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
