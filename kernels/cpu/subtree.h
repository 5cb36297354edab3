// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces a subtree of the canonical order (docs/canonical-order.md), for any operator.
//
// Compiled once per instruction set, each time in a separate namespace: WARPFOLD_ISA.
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

// Folds an ordered operator's leaf: up to 32 contiguous runs, each from its start; then adjacent runs in
// pairs.
template <Operator Op>
struct OrderedLeaf {
  using Element = typename Op::Element;
  static constexpr std::uint32_t kElements = LeafElements(sizeof(Element));
  static constexpr std::uint32_t kRuns = kElements < kLanes ? kElements : kLanes;
  static constexpr std::uint32_t kRunElements = kElements / kRuns;

  static typename Op::LeafState Reduce(const Op& op, const std::byte* data, std::uint64_t count) {
    typename Op::LeafState runs[kRuns];
    const auto present = static_cast<std::uint32_t>((count + kRunElements - 1) / kRunElements);
    for (std::uint32_t run = 0; run < present; ++run) {
      std::uint32_t i = run * kRunElements;
      const std::uint64_t end = i + kRunElements < count ? i + kRunElements : count;
      typename Op::LeafState state = op.Lift(Load<Element>(data, i), i);
      while (++i < end) {
        state = HostAppendTo(op, state, Load<Element>(data, i), i);
      }
      runs[run] = state;
    }
    for (std::uint32_t width = 1; width < present; width *= 2) {
      for (std::uint32_t run = 0; run + width < present; run += 2 * width) {
        runs[run] = op.Combine(runs[run], runs[run + width]);
      }
    }
    return runs[0];
  }
};

// Folds a leaf of matrices with a scalar operator: each entry separately, in array order.
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

// How many nodes of the tree over n > 1 nodes are in its left subtree: the largest power of two below n.
constexpr std::uint64_t LeftOf(std::uint64_t n) {
  std::uint64_t left = 1;
  while (2 * left < n) left *= 2;
  return left;
}

// The number of levels of the tree over n > 0 nodes, including that of the nodes.
constexpr std::uint32_t LevelsOf(std::uint64_t n) {
  std::uint32_t levels = 1;
  for (std::uint64_t width = 1; width < n; width *= 2) ++levels;
  return levels;
}

// Reduces a subtree from the states of its leaves, which Leaf computes: ScalarLeaf or OrderedLeaf. Leaves
// come in array order, and a subtree waits for its right sibling at the level where it is complete. The last
// leaf has no further siblings, so it is combined with all subtrees that still wait.
//
// This is not inlined, so that ranges and segments share it.
template <Operator Op, class Leaf>
__attribute__((noinline)) void ReduceLeaves(const OperatorParameters& parameters, std::uint32_t,
                                            const std::byte* data, std::uint64_t count, std::uint64_t first,
                                            std::byte* out) {
  constexpr std::uint64_t kElements = LeafElements(sizeof(typename Op::Element));
  const Op op = MakeOperator<Op>(parameters);
  typename Op::State waiting[kTreeLevels];  // waiting[l]: a subtree of 2^l leaves
  for (std::uint64_t leaf = 0;; ++leaf) {
    const std::uint64_t present = count < kElements ? count : kElements;
    typename Op::State state = op.Widen(Leaf::Reduce(op, data, present), first);
    count -= present;
    // Bit l of the leaf's number says whether a subtree of level l waits.
    std::uint32_t level = 0;
    for (std::uint64_t bits = leaf; bits % 2 == 1 || (count == 0 && bits != 0); bits /= 2) {
      if (bits % 2 == 1) state = op.Combine(waiting[level], state);
      ++level;
    }
    if (count == 0) {
      std::memcpy(out, &state, sizeof state);
      return;
    }
    waiting[level] = state;
    data += kElements * sizeof(typename Op::Element);
    first += kElements;
  }
}

// Memory for states. It is not a container of the standard library: the copy of its code that the linker
// keeps might be the one for this instruction set.
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

// Folds the tree over the `count` > 0 elements from `data` on. `scratch` has room for a leaf's states for
// each level below the root.
template <ScalarOperator Op>
void FoldEntrywise(const EntrywiseLeaf<Op>& leaf, std::uint64_t leaf_elements, const std::byte* data,
                   std::uint64_t count, std::uint64_t first, typename Op::State* out,
                   typename Op::State* scratch) {
  if (count <= leaf_elements) return leaf(data, count, first, out);
  const std::uint64_t half = leaf_elements * LeftOf((count - 1) / leaf_elements + 1);
  FoldEntrywise(leaf, leaf_elements, data, half, first, out, scratch);
  FoldEntrywise(leaf, leaf_elements, data + half * leaf.entries * sizeof(typename Op::Element), count - half,
                first + half, scratch, scratch + leaf.entries);
  for (std::uint32_t i = 0; i < leaf.entries; ++i) out[i] = leaf.op.Combine(out[i], scratch[i]);
}

template <ScalarOperator Op>
void ReduceEntrywise(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* data,
                     std::uint64_t count, std::uint64_t first, std::byte* out) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  const std::uint64_t leaf_elements = LeafElements(entries * sizeof(typename Op::Element));
  const std::uint32_t levels = LevelsOf((count - 1) / leaf_elements + 1);
  const Scratch<State> states(std::size_t{entries} * levels);
  FoldEntrywise(EntrywiseLeaf<Op>{op, entries}, leaf_elements, data, count, first, states.get(),
                states.get() + entries);
  std::memcpy(out, states.get(), entries * sizeof(State));
}

// The balanced tree over `count` > 0 elements of an operator like LargeMatrixProduct. `scratch` has room for
// one state for each level below the root.
template <class Op>
void FoldLarge(const Op& op, const std::byte* data, std::uint64_t count, typename Op::Entry* out,
               typename Op::Entry* scratch) {
  using T = typename Op::Entry;
  const std::uint32_t entries = op.entries();
  if (count == 1) {
    for (std::uint32_t i = 0; i < entries; ++i) out[i] = op.Lift(Load<T>(data, i));
    return;
  }
  const std::uint64_t half = LeftOf(count);
  FoldLarge(op, data, half, out, scratch);
  FoldLarge(op, data + half * entries * sizeof(T), count - half, scratch, scratch + entries);
  op.Combine(out, scratch);
}

// A leaf of matrices this large has no run of more than one element, so everything is one tree over elements.
template <class Op>
void ReduceLarge(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* data,
                 std::uint64_t count, std::uint64_t, std::byte* out) {
  using T = typename Op::Entry;
  static_assert(LeafElements((kMaxFixedDimension + 1) * (kMaxFixedDimension + 1) * sizeof(T)) <= kLanes);
  const Op op(parameters, entries);
  const Scratch<T> states(std::size_t{entries} * LevelsOf(count));
  FoldLarge(op, data, count, states.get(), states.get() + entries);
  std::memcpy(out, states.get(), entries * sizeof(T));
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
