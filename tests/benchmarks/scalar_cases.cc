// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/scalar_cases.h"

#include <cstdio>

namespace warpfold::benchmarks {

void AddScalarCaseFlags(CLI::App& app, ScalarCases* cases) {
  app.add_option("--operators", cases->operators, "sum,max,...")->delimiter(',')->capture_default_str();
  app.add_option("--dtypes", cases->dtypes, "Element types")
      ->delimiter(',')
      ->check(DtypeValidator())
      ->capture_default_str();
}

void ForEachScalarCase(const ScalarCases& cases,
                       const std::function<void(const kernels::ReductionPlan&)>& run) {
  for (const std::string& op : cases.operators) {
    for (const std::string& dtype : cases.dtypes) {
      kernels::ReductionSpec spec;
      spec.operators = {op};
      spec.element_type = *ElementTypeByName(dtype);
      if (const auto reduction = kernels::ReductionPlan::Create(spec); reduction.ok()) {
        run(*reduction);
      } else {
        std::fprintf(stderr, "left out: %s of %s: %s\n", op.c_str(), dtype.c_str(),
                     std::string(reduction.status().message()).c_str());
      }
    }
  }
}

}  // namespace warpfold::benchmarks
