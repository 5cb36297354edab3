// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The algebras of one family. CMake generates one source file per family that instantiates this.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/operators/lists.h"
#include "kernels/reduction.h"
#include "tests/kernels/algebra.h"

namespace warpfold::kernels {

template <class Op>
void AddAlgebra(ElementType type, const std::string& suffix, const OperatorParameters& parameters,
                std::vector<Algebra>* algebras) {
  const std::string name = absl::StrCat(Op::kName, "_", ElementTypeName(type), suffix);
  algebras->push_back(AlgebraOf<Op>(name, type, parameters));
}

template <template <class, bool> class Family>
void AddAlgebras(ScalarFamily<Family>, std::vector<Algebra>* algebras) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    constexpr auto kElement = ElementTypeAt(kType);
    if constexpr (kSupports<Family, T, false>) AddAlgebra<Family<T, false>>(kElement, "", {}, algebras);
    if constexpr (kSupports<Family, T, true>)
      AddAlgebra<Family<T, true>>(kElement, "_ignore_nan", {}, algebras);
  });
}

template <template <class> class Family>
void AddAlgebras(PairFamily<Family>, std::vector<Algebra>* algebras) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T>) {
      AddAlgebra<Family<T>>(ElementTypeAt(kType), "", {}, algebras);
      if constexpr (IntegerElement<T>) {
        OperatorParameters modulo;
        modulo.modulus = 7;
        AddAlgebra<Family<T>>(ElementTypeAt(kType), "_modulo_7", modulo, algebras);
      }
    }
  });
}

template <template <class, int> class Family>
void AddAlgebras(MatrixFamily<Family>, std::vector<Algebra>* algebras) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    ForEachDimension([&]<int kDimension>() {
      if constexpr (kSupportsMatrix<Family, T, kDimension>) {
        using Op = Family<T, kDimension>;
        const std::string dimension = absl::StrCat("_", kDimension);
        AddAlgebra<Op>(ElementTypeAt(kType), dimension, {}, algebras);
        if constexpr (IntegerElement<T>) {
          OperatorParameters modulo;
          modulo.modulus = 7;
          AddAlgebra<Op>(ElementTypeAt(kType), dimension + "_modulo_7", modulo, algebras);
        }
      }
    });
  });
}

}  // namespace warpfold::kernels
