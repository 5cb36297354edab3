// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of scalars by one operator each, as the flags --operators and --dtypes name them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/reduction.h"
#include "tests/benchmarks/common_flags.h"

namespace warpfold::benchmarks {

struct ScalarCases {
  std::vector<std::string> operators = {"sum"};
  std::vector<std::string> dtypes = {"float32"};
};

void AddScalarCaseFlags(CLI::App& app, ScalarCases* cases);

// Calls `run` for each operator with each element type. Reports on standard error which pairs do not exist.
void ForEachScalarCase(const ScalarCases& cases,
                       const std::function<void(const kernels::ReductionPlan&)>& run);

}  // namespace warpfold::benchmarks
