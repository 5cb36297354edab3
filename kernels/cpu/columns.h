// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces a leaf's elements to one state per lane: columns from the first row to the last, then the columns
// of each lane in pairs (docs/canonical-order.md), written so that the compiler vectorises over columns.
//
// Compiled once per instruction set, each time in a separate namespace: WARPFOLD_ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/elements.h"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// Columns of a leaf: as many as elements in a row of kRowBytes.
template <class T>
inline constexpr std::uint32_t kColumns = kRowBytes / sizeof(T);

// Folds a leaf's elements into one state per column: column j takes elements j, j + kColumns, ... in order,
// or is the identity if there are none. It goes row by row, in the order of memory, although the states of
// all columns need more registers than there are: prefetchers do not follow a walk down the columns, which
// reached only a fifth of the memory's bandwidth. lift(x, row, column) makes a state of an element.
template <class T, class State, class Lift, class Combine>
inline __attribute__((always_inline)) void SweepRows(const std::byte* data, std::uint64_t count,
                                                     const State& identity, const Lift& lift,
                                                     const Combine& combine, State* columns) {
  const auto rows = static_cast<std::uint32_t>(count / kColumns<T>);
  const auto rest = static_cast<std::uint32_t>(count % kColumns<T>);
  if (rows == 0) {
    for (std::uint32_t j = 0; j < kColumns<T>; ++j) columns[j] = identity;
  } else {
    const RowElements<T, kColumns<T>> elements(data);
    for (std::uint32_t j = 0; j < kColumns<T>; ++j) columns[j] = lift(elements[j], 0, j);
  }
  for (std::uint32_t row = 1; row < rows; ++row) {
    const RowElements<T, kColumns<T>> elements(data + row * kRowBytes);
    for (std::uint32_t j = 0; j < kColumns<T>; ++j) {
      columns[j] = combine(columns[j], lift(elements[j], row, j));
    }
  }
  for (std::uint32_t j = 0; j < rest; ++j) {
    columns[j] = combine(columns[j], lift(Read<T>(data + rows * kRowBytes, j), rows, j));
  }
}

// Folds the columns of each lane in pairs: `kCount` states, until one is left for each lane.
template <std::uint32_t kCount, class State, class Combine>
inline __attribute__((always_inline)) void FoldVectors(const State* columns, const Combine& combine,
                                                       State* lanes) {
  if constexpr (kCount == kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = columns[lane];
  } else {
    State pairs[kCount / 2];
    for (std::uint32_t i = 0; i < kCount / 2; ++i) pairs[i] = combine(columns[2 * i], columns[2 * i + 1]);
    FoldVectors<kCount / 2>(pairs, combine, lanes);
  }
}

// Folds lanes at halving distances.
template <int kCount = kLanes, class State, class Combine>
inline __attribute__((always_inline)) State FoldLanes(const State* lanes, const Combine& combine) {
  if constexpr (kCount == 1) {
    return lanes[0];
  } else {
    State half[kCount / 2];
    for (int lane = 0; lane < kCount / 2; ++lane) half[lane] = combine(lanes[lane], lanes[lane + kCount / 2]);
    return FoldLanes<kCount / 2>(half, combine);
  }
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
