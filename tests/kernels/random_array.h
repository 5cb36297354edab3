// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of subjects, and arrays for them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/operators/table.h"
#include "kernels/reduction.h"
#include "tests/kernels/elements.h"

namespace warpfold::kernels {

inline ReductionPlan PlanOf(const ReductionSpec& spec) {
  const absl::StatusOr<ReductionPlan> reduction = ReductionPlan::Create(spec);
  EXPECT_TRUE(reduction.ok()) << reduction.status();
  return reduction.value();
}

inline std::vector<std::byte> RandomArray(const ReductionPlan& reduction, std::uint64_t count,
                                          Flavour flavour, Random& random) {
  const ReductionSpec& spec = reduction.spec();
  const std::uint64_t scalars = count * spec.shape.entries();
  std::vector<std::byte> array = RandomElements(spec.element_type, scalars, flavour, random);
  if (flavour == Flavour::kTame && reduction.operators()[0].entry->whole_matrix) {
    MakeUnitLike(spec.element_type, spec.shape.rows, array);
  }
  return array;
}

}  // namespace warpfold::kernels
