// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A row is what a backend has for one operator: a function for each element type and shape. This header is
// the only place that builds the rows over ranges, for every backend: cpu, cuda, its textbook, and simt. Rows
// over segments are built beside their kernels (cpu/row_of.h, cuda/segments/row_of.cuh). No abseil: nvcc
// compiles it.
#pragma once

#include <array>
#include <type_traits>

#include "kernels/operators/lists.h"
#include "kernels/operators/table.h"
#include "kernels/operators/traits.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// Function is a pointer; null if the backend has none.
template <class Function>
struct FunctionRow {
  std::array<std::array<Function, 2>, kElementTypeCount> scalar{};  // by type and ignore_nan
  std::array<std::array<Function, 2>, kElementTypeCount> entrywise{};
  std::array<std::array<Function, kWholeShapes>, kElementTypeCount> whole{};

  // The function that computes the states of `op`. The row is that of the family number op.reducer.
  constexpr Function For(const OperatorEntry& op, ElementType type, ElementShape shape) const {
    const int t = IndexOf(type);
    if (op.whole_matrix) return whole[t][WholeIndex(shape)];
    return (shape.is_matrix() ? entrywise : scalar)[t][op.reducer_ignores_nan ? 1 : 0];
  }
};

// The backend's function for an operator over scalars.
template <class Functions, class Op>
constexpr auto ScalarFunction() {
  if constexpr (AccumulatingOperator<Op>) {
    return Functions::template kExact<Op>;
  } else if constexpr (Op::kCommutative) {
    return Functions::template kScalars<Op>;
  } else {
    return Functions::template kOrdered<Op>;
  }
}

// What a backend's `Functions` tells MakeRow; it has those members that its operators need:
//
//   Serves(type, ignore_nan)           whether the backend has scalars and entries of this kind
//   ServesWhole(type, dimension)       the same for whole matrices; for pairs and large ones, dimension is 0
//   kScalars<Op>                       its function for commutative operators over scalars
//   kExact<Op>                         its function for operators over scalars that have an accumulator
//   kEntrywise<Op>                     for operators over scalars, entry by entry over matrices
//   kOrdered<Op>                       for ordered operators, whether over scalars, pairs or whole matrices
//   kLarge<Op>                         for those over matrices of more than kMaxFixedDimension rows
//
// A function that is not supported stays null, and so does one that another operator's states replace.
template <class Functions, template <class, bool> class Family, class T, bool kIgnoreNan, int kType,
          class Row>
constexpr void FillScalar(Row& row) {
  if constexpr (kSupports<Family, T, kIgnoreNan> && Functions::Serves(ElementTypeAt(kType), kIgnoreNan)) {
    using Op = Family<T, kIgnoreNan>;
    if constexpr (std::is_same_v<ReducerOf<Op>, Op>) {
      row.scalar[kType][kIgnoreNan] = ScalarFunction<Functions, Op>();
      if constexpr (!ScalarsOnly<Op>) row.entrywise[kType][kIgnoreNan] = Functions::template kEntrywise<Op>;
    }
  }
}

template <class Row, class Functions, template <class, bool> class Family>
constexpr Row MakeRow(ScalarFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    FillScalar<Functions, Family, T, false, kType>(row);
    FillScalar<Functions, Family, T, true, kType>(row);
    if constexpr (!FloatElement<T>) {  // integers have no NaN to ignore
      row.scalar[kType][1] = row.scalar[kType][0];
      row.entrywise[kType][1] = row.entrywise[kType][0];
    }
  });
  return row;
}

template <class Row, class Functions, template <class> class Family>
constexpr Row MakeRow(PairFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T> && Functions::ServesWhole(ElementTypeAt(kType), 0)) {
      row.whole[kType][kPairIndex] = Functions::template kOrdered<Family<T>>;
    }
  });
  return row;
}

template <class Row, class Functions, template <class, int> class Family>
constexpr Row MakeRow(MatrixFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    ForEachDimension([&]<int kDimension>() {
      if constexpr (kSupportsMatrix<Family, T, kDimension>) {
        if constexpr (Functions::ServesWhole(ElementTypeAt(kType), kDimension)) {
          row.whole[kType][kDimension] = Functions::template kOrdered<Family<T, kDimension>>;
        }
        if constexpr (Functions::ServesWhole(ElementTypeAt(kType), 0)) {
          row.whole[kType][kLargeIndex] = Functions::template kLarge<typename Family<T, kDimension>::Large>;
        }
      }
    });
  });
  return row;
}

// The rows of a backend, for the families of a list. `row_of` is called as row_of.operator()<Family>() and
// returns a pointer to that family's row, which a generated source defines (kernels/row.in).
template <class Row, class... Families, class RowOf>
std::array<const Row*, sizeof...(Families)> AllRows(TypeList<Families...>, RowOf row_of) {
  return {row_of.template operator()<Families>()...};
}

// The same for a backend that has rows only for the families `Served`: the others' are empty.
template <class Row, class... Families, class... Served, class RowOf>
std::array<const Row*, sizeof...(Families)> RowsOfSome(TypeList<Families...>, TypeList<Served...>,
                                                       RowOf row_of) {
  static constexpr Row kNothing{};
  const auto one = [&]<class Family>() -> const Row* {
    if constexpr ((std::is_same_v<Family, Served> || ...)) return row_of.template operator()<Family>();
    return &kNothing;
  };
  return {one.template operator()<Families>()...};
}

}  // namespace warpfold::kernels
