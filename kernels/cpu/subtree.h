// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces a subtree of the canonical order (docs/canonical-order.md), for any operator.
//
// Compiled once per instruction set, each time in a namespace of its own: WARPFOLD_ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/scalar_leaf.h"
#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// An ordered operator's leaf: up to 32 contiguous runs, each folded from its start; then neighbouring runs.
template <Operator Op>
struct OrderedLeaf {
  using Element = typename Op::Element;
  static constexpr std::uint32_t kElements = LeafElements(sizeof(Element));
  static constexpr std::uint32_t kRuns = kElements < kLanes ? kElements : kLanes;
  static constexpr std::uint32_t kRunElements = kElements / kRuns;

  const Op& op;

  void operator()(const std::byte* data, std::uint64_t count, std::uint64_t first,
                  typename Op::State* out) const {
    typename Op::LeafState runs[kRuns];
    const auto present = static_cast<std::uint32_t>((count + kRunElements - 1) / kRunElements);
    for (std::uint32_t run = 0; run < present; ++run) {
      std::uint32_t i = run * kRunElements;
      const std::uint64_t end = i + kRunElements < count ? i + kRunElements : count;
      typename Op::LeafState state = op.Lift(Load<Element>(data, i), i);
      while (++i < end) state = op.Combine(state, op.Lift(Load<Element>(data, i), i));
      runs[run] = state;
    }
    for (std::uint32_t width = 1; width < present; width *= 2) {
      for (std::uint32_t run = 0; run + width < present; run += 2 * width) {
        runs[run] = op.Combine(runs[run], runs[run + width]);
      }
    }
    *out = op.Widen(runs[0], first);
  }
};

// A scalar operator over matrices: each entry by itself, in array order.
template <ScalarOperator Op>
struct EntrywiseLeaf {
  using T = typename Op::Element;

  const Op& op;
  std::uint32_t entries;

  void operator()(const std::byte* data, std::uint64_t count, std::uint64_t first,
                  typename Op::State* out) const {
    typename Op::LeafState states[kMaxMatrixDimension * kMaxMatrixDimension];
    for (std::uint32_t e = 0; e < entries; ++e) states[e] = op.Lift(Load<T>(data, e), 0);
    for (std::uint32_t i = 1; i < count; ++i) {
      for (std::uint32_t e = 0; e < entries; ++e) {
        states[e] = op.Combine(states[e], op.Lift(Load<T>(data, std::uint64_t{i} * entries + e), i));
      }
    }
    for (std::uint32_t e = 0; e < entries; ++e) out[e] = op.Widen(states[e], first);
  }
};

// The subtree of `level` that starts at `data`, of which `count` > 0 elements exist.
// A node without a right child is its left child. kWidth: states per node, at most.
template <int kWidth, class Op, class Leaf>
void FoldSubtree(const Op& op, const Leaf& leaf, std::uint32_t width, std::uint64_t leaf_elements,
                 std::uint64_t element_bytes, const std::byte* data, std::uint64_t count, std::uint64_t first,
                 std::uint32_t level, typename Op::State* out) {
  while (level > 0 && count <= leaf_elements << (level - 1)) --level;
  if (level == 0) return leaf(data, count, first, out);
  const std::uint64_t half = leaf_elements << (level - 1);
  typename Op::State right[kWidth];
  FoldSubtree<kWidth>(op, leaf, width, leaf_elements, element_bytes, data, half, first, level - 1, out);
  FoldSubtree<kWidth>(op, leaf, width, leaf_elements, element_bytes, data + half * element_bytes,
                      count - half, first + half, level - 1, right);
  for (std::uint32_t i = 0; i < width; ++i) out[i] = op.Combine(out[i], right[i]);
}

template <ScalarOperator Op>
void ReduceScalars(const OperatorParameters& parameters, std::uint32_t, const std::byte* data,
                   std::uint64_t count, std::uint64_t first, std::uint32_t level, std::byte* out) {
  using T = typename Op::Element;
  const Op op = MakeOperator<Op>(parameters);
  const auto leaf = [&op](const std::byte* elements, std::uint64_t present, std::uint64_t begin,
                          typename Op::State* state) {
    *state = op.Widen(ScalarLeaf<Op>::Reduce(op, elements, present), begin);
  };
  typename Op::State state;
  FoldSubtree<1>(op, leaf, 1, kLeafBytes / sizeof(T), sizeof(T), data, count, first, level, &state);
  std::memcpy(out, &state, sizeof state);
}

template <ScalarOperator Op>
void ReduceEntrywise(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* data,
                     std::uint64_t count, std::uint64_t first, std::uint32_t level, std::byte* out) {
  const Op op = MakeOperator<Op>(parameters);
  constexpr int kWidth = kMaxMatrixDimension * kMaxMatrixDimension;
  typename Op::State states[kWidth];
  const std::uint64_t bytes = entries * sizeof(typename Op::Element);
  FoldSubtree<kWidth>(op, EntrywiseLeaf<Op>{op, entries}, entries, LeafElements(bytes), bytes, data, count,
                      first, level, states);
  std::memcpy(out, states, entries * sizeof(typename Op::State));
}

template <Operator Op>
void ReduceOrdered(const OperatorParameters& parameters, std::uint32_t, const std::byte* data,
                   std::uint64_t count, std::uint64_t first, std::uint32_t level, std::byte* out) {
  using Element = typename Op::Element;
  const Op op = MakeOperator<Op>(parameters);
  typename Op::State state;
  FoldSubtree<1>(op, OrderedLeaf<Op>{op}, 1, OrderedLeaf<Op>::kElements, sizeof(Element), data, count, first,
                 level, &state);
  std::memcpy(out, &state, sizeof state);
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
