// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds a backend's row of functions for one family. `Loops` names the backend's function for an
// operator: kScalars<Op> for commutative ones over scalars, kExact<Op> for those of them with an accumulator,
// kEntrywise<Op> for those entry by entry over matrices, kOrdered<Op> for ordered ones, whether over scalars,
// pairs or whole matrices, kLarge<Op> for those over matrices of more than kMaxFixedDimension rows. What is
// not supported, or what another operator's states serve, stays null.
#pragma once

#include <type_traits>

#include "kernels/operators/family.h"
#include "kernels/operators/for_each.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels {

template <class Loops, template <class, bool> class Family, class T, bool kIgnoreNan, int kType, class Row>
constexpr void FillScalar(Row& row) {
  if constexpr (kSupports<Family, T, kIgnoreNan>) {
    using Op = Family<T, kIgnoreNan>;
    if constexpr (std::is_same_v<ReducerOf<Op>, Op>) {
      if constexpr (AccumulatingOperator<Op>) {
        row.scalar[kType][kIgnoreNan] = Loops::template kExact<Op>;
      } else if constexpr (Op::kCommutative) {
        row.scalar[kType][kIgnoreNan] = Loops::template kScalars<Op>;
      } else {
        row.scalar[kType][kIgnoreNan] = Loops::template kOrdered<Op>;
      }
      if constexpr (!requires { Op::kScalarsOnly; }) {
        row.entrywise[kType][kIgnoreNan] = Loops::template kEntrywise<Op>;
      }
    }
  }
}

template <class Row, class Loops, template <class, bool> class Family>
constexpr Row MakeRow(ScalarFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    FillScalar<Loops, Family, T, false, kType>(row);
    FillScalar<Loops, Family, T, true, kType>(row);
    if constexpr (!FloatElement<T>) {  // integers have no NaN to ignore
      row.scalar[kType][1] = row.scalar[kType][0];
      row.entrywise[kType][1] = row.entrywise[kType][0];
    }
  });
  return row;
}

template <class Row, class Loops, template <class> class Family>
constexpr Row MakeRow(PairFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T>) {
      row.whole[kType][kPairIndex] = Loops::template kOrdered<Family<T>>;
    }
  });
  return row;
}

template <class Row, class Loops, template <class, int> class Family>
constexpr Row MakeRow(MatrixFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    ForEachDimension([&]<int kDimension>() {
      if constexpr (kSupportsMatrix<Family, T, kDimension>) {
        row.whole[kType][kDimension] = Loops::template kOrdered<Family<T, kDimension>>;
        row.whole[kType][kLargeIndex] = Loops::template kLarge<typename Family<T, kDimension>::Large>;
      }
    });
  });
  return row;
}

}  // namespace warpfold::kernels
