// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// argmin and argmax of a leaf: the best rank of each row, as min and max find it; then the first row that has
// the best of all, and in it the first element. The memory may belong to another process, which writes to it
// meanwhile (kernels/memory.h): a rank that was found need not be there when it is looked for again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/elements.h"
#include "kernels/operators/extremum.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <AnyElement T, bool kIgnoreNan, bool kMax>
struct ArgExtremumLeaf {
  using Op = ArgExtremum<T, kIgnoreNan, kMax>;
  using LeafState = typename Op::LeafState;

  static LeafState Reduce(const Op& op, const std::byte* data, std::uint64_t count) {
    Key<T> best = Op::Keys::kWorst;
    std::uint64_t best_row = 0;
    for (std::uint64_t row = 0; row < count; row += kColumns<T>) {
      const Key<T> rank = count - row >= kColumns<T> ? BestOf(op, data + row * sizeof(T), kColumns<T>)
                                                     : BestOf(op, data + row * sizeof(T), count - row);
      if (kMax ? rank > best : rank < best) {
        best = rank;
        best_row = row;
      }
    }
    // Only ignored NaN have the worst rank of floats.
    if (kIgnoreNan && FloatElement<T> && best == Op::Keys::kWorst) return op.LeafIdentity();
    const std::uint64_t found =
        best_row + (count - best_row >= kColumns<T>
                        ? FirstWith(op, best, data + best_row * sizeof(T), kColumns<T>)
                        : FirstWith(op, best, data + best_row * sizeof(T), count - best_row));
    // If somebody changes the elements, any of them may be the result, but nothing outside of them.
    const std::uint64_t i = std::min(found, count - 1);
    return op.Lift(Load<T>(data, i), static_cast<std::uint32_t>(i));
  }

 private:
  static inline __attribute__((always_inline)) Key<T> BestOf(const Op& op, const std::byte* row,
                                                             std::uint64_t count) {
    Key<T> best = Op::Keys::kWorst;
    for (std::uint64_t i = 0; i < count; ++i) {
      best = typename Op::Keys{}.Combine(best, op.RankOf(Load<T>(row, i)));
    }
    return best;
  }
  // The loop has no early exit, so that compilers vectorise it.
  static inline __attribute__((always_inline)) std::uint32_t FirstWith(const Op& op, Key<T> rank,
                                                                       const std::byte* row,
                                                                       std::uint64_t count) {
    std::uint32_t first = kColumns<T>;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t place = op.RankOf(Load<T>(row, i)) == rank ? i : kColumns<T>;
      first = place < first ? place : first;
    }
    return first;
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
