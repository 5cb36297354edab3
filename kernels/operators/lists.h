// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The lists that every table of the project is built from, at compile time: the entries of a list of
// operators (operator_list.h), and loops over lists.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/operators/element_types.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// A family of operators, one for each element type, as a type: an entry of a list of operators.
//
// Operators over scalars: Family<T, kIgnoreNan>.
template <template <class, bool> class Family>
struct ScalarFamily {};

// Operators over square matrices: Family<T, kDimension>.
template <template <class, int> class Family>
struct MatrixFamily {};

// Operators over rows of two entries: Family<T>.
template <template <class> class Family>
struct PairFamily {};

// Calls f.operator()<T, index>() for each type of the list.
template <class... Ts, class F>
constexpr void ForEachType(TypeList<Ts...>, F f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (f.template operator()<Ts, static_cast<int>(kIndex)>(), ...);
  }
  (std::index_sequence_for<Ts...>());
}

// Calls f.operator()<d>() for d = 1 to kMaxFixedDimension.
template <class F>
constexpr void ForEachDimension(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) { (f.template operator()<kIndex + 1>(), ...); }
  (std::make_integer_sequence<int, static_cast<int>(kMaxFixedDimension)>());
}

}  // namespace warpfold::kernels
