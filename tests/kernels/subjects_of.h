// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The subjects of one family. CMake generates one source file per family that instantiates this.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/traits.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {

inline constexpr ElementShape kShapes[] = {{1, 1}, {2, 3}, {5, 1}, {9, 31}};

inline std::string NameOf(const ReductionSpec& spec) {
  std::string name = absl::StrCat(spec.operators[0], "_", std::string(ElementTypeName(spec.element_type)));
  if (spec.shape.is_matrix()) absl::StrAppend(&name, "_", spec.shape.rows, "x", spec.shape.columns);
  if (spec.ignore_nan) absl::StrAppend(&name, "_ignore_nan");
  if (spec.wrap_overflow) absl::StrAppend(&name, "_wrap");
  if (spec.modulus.has_value()) absl::StrAppend(&name, "_modulo_", *spec.modulus);
  return name;
}

template <class Op>
void Add(ReductionSpec spec, std::vector<Subject>* subjects) {
  spec.operators = {Op::kName};
  Subject subject;
  subject.name = NameOf(spec);
  subject.spec = std::move(spec);
  subject.commutative = Op::kCommutative;
  subject.reference = reference::Reduce<Op>;
  subjects->push_back(std::move(subject));
}

template <template <class, bool> class Family, class T, bool kIgnoreNan>
void AddScalar(ElementType type, std::vector<Subject>* subjects) {
  if constexpr (kSupports<Family, T, kIgnoreNan>) {
    using Op = Family<T, kIgnoreNan>;
    ReductionSpec spec;
    spec.element_type = type;
    spec.ignore_nan = kIgnoreNan;
    Add<Op>(spec, subjects);
    if constexpr (IntegerElement<T> && std::constructible_from<Op, const OperatorParameters&>) {
      ReductionSpec wrapping = spec;
      wrapping.wrap_overflow = true;
      Add<Op>(wrapping, subjects);
    }
    if constexpr (!ScalarsOnly<Op>) {
      for (const ElementShape shape : kShapes) {
        ReductionSpec matrices = spec;
        matrices.shape = shape;
        Add<Op>(matrices, subjects);
      }
    }
  }
}

template <template <class, bool> class Family>
void AddSubjects(ScalarFamily<Family>, std::vector<Subject>* subjects) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    AddScalar<Family, T, false>(ElementTypeAt(kType), subjects);
    AddScalar<Family, T, true>(ElementTypeAt(kType), subjects);
  });
}

template <template <class> class Family>
void AddSubjects(PairFamily<Family>, std::vector<Subject>* subjects) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T>) {
      ReductionSpec spec;
      spec.element_type = ElementTypeAt(kType);
      spec.shape = {1, 2};
      Add<Family<T>>(spec, subjects);
      if constexpr (IntegerElement<T>) {
        spec.modulus = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
        Add<Family<T>>(spec, subjects);
      }
    }
  });
}

template <template <class, int> class Family, class T, int kDimension>
void AddMatrix(ElementType type, std::vector<Subject>* subjects) {
  if constexpr (kSupportsMatrix<Family, T, kDimension>) {
    ReductionSpec spec;
    spec.element_type = type;
    spec.shape = {kDimension, kDimension};
    Add<Family<T, kDimension>>(spec, subjects);
    if constexpr (IntegerElement<T>) {
      const T modulus = kDimension % 3 == 2 ? T{7} : std::numeric_limits<T>::max();
      spec.modulus = static_cast<std::uint64_t>(modulus);
      Add<Family<T, kDimension>>(spec, subjects);
    }
  }
}

// Those that know their dimension at compile time; and some larger ones, whose reference does.
template <template <class, int> class Family>
void AddSubjects(MatrixFamily<Family>, std::vector<Subject>* subjects) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    constexpr auto kElement = ElementTypeAt(kType);
    ForEachDimension([&]<int kDimension>() { AddMatrix<Family, T, kDimension>(kElement, subjects); });
    AddMatrix<Family, T, 12>(kElement, subjects);
    AddMatrix<Family, T, 16>(kElement, subjects);
    AddMatrix<Family, T, 17>(kElement, subjects);
    AddMatrix<Family, T, 31>(kElement, subjects);
    AddMatrix<Family, T, 32>(kElement, subjects);
  });
}

}  // namespace warpfold::kernels
