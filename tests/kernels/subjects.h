// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Everything that can be reduced, generated from the lists of operators and element types: a new operator
// appears here, and in every test over subjects, by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "kernels/reduction.h"
#include "tests/kernels/reference.h"

namespace warpfold::kernels {

// One operator over one element type and shape, with one choice of options.
struct Subject {
  std::string name;    // of letters, digits and underscores
  ReductionSpec spec;  // of only this operator
  bool commutative = false;
  // What the canonical order yields for elements first, first + 1, ...
  reference::Result (*reference)(const OperatorParameters& parameters, ElementShape shape,
                                 std::uint64_t first, std::span<const std::byte> data) = nullptr;

  OperatorParameters parameters() const {
    return {.wrap_overflow = spec.wrap_overflow, .modulus = spec.modulus.value_or(0)};
  }
  reference::Result Reference(std::uint64_t first, std::span<const std::byte> data) const {
    return reference(parameters(), spec.shape, first, data);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }

const std::vector<Subject>& AllSubjects();

}  // namespace warpfold::kernels
