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
#include <new>

#include "kernels/cpu/scalar_leaf.h"
#include "kernels/cpu/tuning.h"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// Folds an ordered operator's leaf: up to 32 contiguous runs, each from its start; then neighbouring runs in
// pairs.
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
      while (++i < end) {
        const auto x = Load<Element>(data, i);
        if constexpr (HostAppends<Op>) {
          state = op.Append(state, x, i);
        } else {
          state = op.Combine(state, op.Lift(x, i));
        }
      }
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

// Folds a leaf of matrices by a scalar operator: each entry by itself, in array order.
template <ScalarOperator Op>
struct EntrywiseLeaf {
  using T = typename Op::Element;

  const Op& op;
  std::uint32_t entries;

  void operator()(const std::byte* data, std::uint64_t count, std::uint64_t first,
                  typename Op::State* out) const {
    for (std::uint32_t e = 0; e < entries; e += kEntriesAtOnce) {
      FoldEntries(data, count, first, e, entries - e < kEntriesAtOnce ? entries - e : kEntriesAtOnce,
                  out + e);
    }
  }

 private:
  void FoldEntries(const std::byte* data, std::uint64_t count, std::uint64_t first, std::uint32_t begin,
                   std::uint32_t width, typename Op::State* out) const {
    typename Op::LeafState states[kEntriesAtOnce];
    for (std::uint32_t e = 0; e < width; ++e) states[e] = op.Lift(Load<T>(data, begin + e), 0);
    for (std::uint32_t i = 1; i < count; ++i) {
      const std::uint64_t element = std::uint64_t{i} * entries + begin;
      for (std::uint32_t e = 0; e < width; ++e) {
        states[e] = op.Combine(states[e], op.Lift(Load<T>(data, element + e), i));
      }
    }
    for (std::uint32_t e = 0; e < width; ++e) out[e] = op.Widen(states[e], first);
  }
};

// The level of the smallest subtree that holds `count` > 0 elements, `level` at most.
constexpr std::uint32_t SmallestLevel(std::uint64_t count, std::uint64_t leaf_elements, std::uint32_t level) {
  while (level > 0 && count <= leaf_elements << (level - 1)) --level;
  return level;
}

// Folds the subtree of `level` that starts at `data`, of which `count` > 0 elements exist. Writes `width`
// states. `scratch` has room for `width` states for each level of a complete subtree of so many elements.
template <class Op, class Leaf>
void FoldSubtree(const Op& op, const Leaf& leaf, std::uint32_t width, std::uint64_t leaf_elements,
                 std::uint64_t element_bytes, const std::byte* data, std::uint64_t count, std::uint64_t first,
                 std::uint32_t level, typename Op::State* out, typename Op::State* scratch) {
  level = SmallestLevel(count, leaf_elements, level);
  if (level == 0) return leaf(data, count, first, out);
  const std::uint64_t half = leaf_elements << (level - 1);
  FoldSubtree(op, leaf, width, leaf_elements, element_bytes, data, half, first, level - 1, out, scratch);
  FoldSubtree(op, leaf, width, leaf_elements, element_bytes, data + half * element_bytes, count - half,
              first + half, level - 1, scratch, scratch + width);
  for (std::uint32_t i = 0; i < width; ++i) out[i] = op.Combine(out[i], scratch[i]);
}

// Memory for states. Not a container of the standard library: what the linker keeps of that may be this
// instruction set's copy.
template <class State>
class Scratch {
 public:
  explicit Scratch(std::size_t states)
      : states_(static_cast<State*>(::operator new(states * sizeof(State)))) {}
  ~Scratch() { ::operator delete(states_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  State* get() const { return states_; }

 private:
  State* const states_;
};

// This is not inlined, so that ranges and segments share the code that folds leaves.
template <ScalarOperator Op>
__attribute__((noinline)) typename Op::State FoldScalars(const Op& op, const std::byte* data,
                                                         std::uint64_t count, std::uint64_t first,
                                                         std::uint32_t level) {
  using T = typename Op::Element;
  const auto leaf = [&op](const std::byte* elements, std::uint64_t present, std::uint64_t begin,
                          typename Op::State* state) {
    *state = op.Widen(ScalarLeaf<Op>::Reduce(op, elements, present), begin);
  };
  typename Op::State state;
  typename Op::State scratch[kTreeLevels];
  FoldSubtree(op, leaf, 1, kLeafBytes / sizeof(T), sizeof(T), data, count, first, level, &state, scratch);
  return state;
}

template <ScalarOperator Op>
void ReduceScalars(const OperatorParameters& parameters, std::uint32_t, const std::byte* data,
                   std::uint64_t count, std::uint64_t first, std::uint32_t level, std::byte* out) {
  const typename Op::State state = FoldScalars(MakeOperator<Op>(parameters), data, count, first, level);
  std::memcpy(out, &state, sizeof state);
}

template <ScalarOperator Op>
void ReduceEntrywise(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* data,
                     std::uint64_t count, std::uint64_t first, std::uint32_t level, std::byte* out) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  const std::uint64_t bytes = entries * sizeof(typename Op::Element);
  const std::uint64_t leaf_elements = LeafElements(bytes);
  const std::uint32_t levels = SmallestLevel(count, leaf_elements, level);
  const Scratch<State> states(std::size_t{entries} * (levels + 1));
  FoldSubtree(op, EntrywiseLeaf<Op>{op, entries}, entries, leaf_elements, bytes, data, count, first, level,
              states.get(), states.get() + entries);
  std::memcpy(out, states.get(), entries * sizeof(State));
}

template <Operator Op>
__attribute__((noinline)) typename Op::State FoldOrdered(const Op& op, const std::byte* data,
                                                         std::uint64_t count, std::uint64_t first,
                                                         std::uint32_t level) {
  using Element = typename Op::Element;
  typename Op::State state;
  typename Op::State scratch[kTreeLevels];
  FoldSubtree(op, OrderedLeaf<Op>{op}, 1, OrderedLeaf<Op>::kElements, sizeof(Element), data, count, first,
              level, &state, scratch);
  return state;
}

template <Operator Op>
void ReduceOrdered(const OperatorParameters& parameters, std::uint32_t, const std::byte* data,
                   std::uint64_t count, std::uint64_t first, std::uint32_t level, std::byte* out) {
  const typename Op::State state = FoldOrdered(MakeOperator<Op>(parameters), data, count, first, level);
  std::memcpy(out, &state, sizeof state);
}

// The balanced tree over `count` elements, of 2^level if it were complete, of an operator like
// LargeMatrixProduct. `scratch` has room for a state for each level.
template <class Op>
void FoldLarge(const Op& op, const std::byte* data, std::uint64_t count, std::uint32_t level,
               typename Op::Entry* out, typename Op::Entry* scratch) {
  using T = typename Op::Entry;
  const std::uint32_t entries = op.entries();
  level = SmallestLevel(count, 1, level);
  if (level == 0) {
    for (std::uint32_t i = 0; i < entries; ++i) out[i] = op.Lift(Load<T>(data, i));
    return;
  }
  const std::uint64_t half = std::uint64_t{1} << (level - 1);
  FoldLarge(op, data, half, level - 1, out, scratch);
  FoldLarge(op, data + half * entries * sizeof(T), count - half, level - 1, scratch, scratch + entries);
  op.Combine(out, scratch);
}

// A leaf of such large matrices has no run of more than one element, so that all is one tree over elements.
template <class Op>
void ReduceLarge(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* data,
                 std::uint64_t count, std::uint64_t, std::uint32_t level, std::byte* out) {
  using T = typename Op::Entry;
  static_assert(LeafElements((kMaxFixedDimension + 1) * (kMaxFixedDimension + 1) * sizeof(T)) <= kLanes);
  const Op op(parameters, entries);
  const std::uint32_t leaf_level = Log2(static_cast<std::uint32_t>(LeafElements(entries * sizeof(T))));
  const std::uint32_t levels = SmallestLevel(count, 1, level + leaf_level);
  const Scratch<T> states(std::size_t{entries} * (levels + 1));
  FoldLarge(op, data, count, level + leaf_level, states.get(), states.get() + entries);
  std::memcpy(out, states.get(), entries * sizeof(T));
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
