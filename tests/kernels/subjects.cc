// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/subjects.h"

#include "kernels/operators/lists.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels {

// Defined by the generated sources, one per family.
template <class Family>
void AddSubjectsOf(std::vector<Subject>* subjects);

const std::vector<Subject>& AllSubjects() {
  static const auto* const all = [] {
    auto* subjects = new std::vector<Subject>;
    ForEachType(OperatorList(), [&]<class Family, int>() { AddSubjectsOf<Family>(subjects); });
    return subjects;
  }();
  return *all;
}

}  // namespace warpfold::kernels
