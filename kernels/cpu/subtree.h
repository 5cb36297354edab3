// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a CPU reduces a subtree of the canonical order (docs/canonical-order.md), for any operator.
//
// Compiled once per instruction set, each time in a namespace of its own: WARPFOLD_ISA. The loops are
// written so that the compiler vectorises them; it may not reorder floats, and need not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class T>
inline __attribute__((always_inline)) T Load(const std::byte* data, std::uint64_t index) {
  T x;  // data may have any alignment
  std::memcpy(&x, data + index * sizeof(T), sizeof x);
  return x;
}

// Columns of a leaf: as many as elements in a row of kRowBytes.
template <class T>
inline constexpr std::uint32_t kColumns = kRowBytes / sizeof(T);

// Folds a leaf's elements into one state per column: column j takes elements j, j + kColumns, ... in order,
// or is the identity if there are none.
template <class T, class State, class Lift, class Combine>
inline __attribute__((always_inline)) void SweepColumns(const std::byte* data, std::uint64_t count,
                                                        const State& identity, const Lift& lift,
                                                        const Combine& combine, State* columns) {
  constexpr std::uint32_t kElements = kLeafBytes / sizeof(T);
  if (count == kElements) {
    for (std::uint32_t j = 0; j < kColumns<T>; ++j) {
      State state = lift(Load<T>(data, j), j);
      for (std::uint32_t i = j + kColumns<T>; i < kElements; i += kColumns<T>) {
        state = combine(state, lift(Load<T>(data, i), i));
      }
      columns[j] = state;
    }
  } else {
    for (std::uint32_t j = 0; j < kColumns<T>; ++j) {
      columns[j] = identity;
      for (std::uint32_t i = j; i < count; i += kColumns<T>) {
        columns[j] = combine(columns[j], lift(Load<T>(data, i), i));
      }
    }
  }
}

// Folds the columns of each lane's vector, pairwise.
template <class T, class State, class Combine>
inline __attribute__((always_inline)) void FoldVectors(State* columns, const Combine& combine, State* lanes) {
  constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  for (std::uint32_t width = 1; width < kVector; width *= 2) {
    for (std::uint32_t i = 0; i < kColumns<T>; i += 2 * width) {
      columns[i] = combine(columns[i], columns[i + width]);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = columns[lane * kVector];
}

// Of a leaf's first `count` elements, how many are in the lane's vectors.
template <class T>
constexpr std::uint32_t PresentInLane(std::uint64_t count, std::uint32_t lane) {
  constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  const auto rows = static_cast<std::uint32_t>(count / kColumns<T>);
  const auto rest = static_cast<std::uint32_t>(count % kColumns<T>);
  const std::uint32_t before = lane * kVector;
  const std::uint32_t in_last_row = rest <= before ? 0 : rest - before < kVector ? rest - before : kVector;
  return rows * kVector + in_last_row;
}

// A commutative operator's leaf: columns, then vectors, then lanes l and l + 16, l and l + 8, ... l and l
// + 1.
template <ScalarOperator Op>
struct ScalarLeaf {
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;

  const Op& op;

  void operator()(const std::byte* data, std::uint64_t count, std::uint64_t first,
                  typename Op::State* out) const {
    const auto combine = [this](const LeafState& a, const LeafState& b) { return op.Combine(a, b); };
    LeafState lanes[kLanes];
    if constexpr (TwoSweeps<Op>) {
      SweepTwice(data, count, lanes);
    } else {
      LeafState columns[kColumns<T>];
      SweepColumns<T>(
          data, count, op.LeafIdentity(), [this](T x, std::uint32_t i) { return op.Lift(x, i); }, combine,
          columns);
      FoldVectors<T>(columns, combine, lanes);
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      for (int lane = 0; lane < distance; ++lane) lanes[lane] = combine(lanes[lane], lanes[lane + distance]);
    }
    *out = op.Widen(lanes[0], first);
  }

 private:
  void SweepTwice(const std::byte* data, std::uint64_t count, LeafState* lanes) const requires TwoSweeps<Op> {
    using First = typename Op::First;
    using Second = typename Op::Second;
    constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
    First first_columns[kColumns<T>];
    First first[kLanes];
    const auto combine_first = [this](const First& a, const First& b) { return op.CombineFirst(a, b); };
    // What stands for absent elements goes no further than to a lane's vectors that are partly there.
    const First no_first = op.FirstIdentity();
    SweepColumns<T>(
        data, count, no_first, [this](T x, std::uint32_t) { return op.LiftFirst(x); }, combine_first,
        first_columns);
    FoldVectors<T>(first_columns, combine_first, first);

    double centers[kLanes];
    std::uint32_t present[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      present[lane] = PresentInLane<T>(count, lane);
      centers[lane] = op.Center(first[lane], present[lane]);
    }
    Second second_columns[kColumns<T>];
    Second second[kLanes];
    const auto combine_second = [this](const Second& a, const Second& b) { return op.CombineSecond(a, b); };
    SweepColumns<T>(
        data, count, Second{},
        [&](T x, std::uint32_t i) { return op.LiftSecond(x, centers[i % kColumns<T> / kVector]); },
        combine_second, second_columns);
    FoldVectors<T>(second_columns, combine_second, second);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = present[lane] == 0 ? op.LeafIdentity()
                                       : op.Join(first[lane], centers[lane], second[lane], present[lane]);
    }
  }
};

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
  typename Op::State state;
  FoldSubtree<1>(op, ScalarLeaf<Op>{op}, 1, kLeafBytes / sizeof(T), sizeof(T), data, count, first, level,
                 &state);
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
