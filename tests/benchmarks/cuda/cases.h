// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cases that are measured: reductions at sizes, as the flags choose them or as the standing results need
// them.
#pragma once

#include <vector>

#include "kernels/reduction.h"
#include "tests/benchmarks/cuda/flags.h"

namespace warpfold::benchmarks {

struct Case {
  kernels::ReductionSpec spec;
  std::vector<int> log2_bytes;
  bool from_host = false;  // the wall time of a call, not the device's
};

// The cases of the flags' preset, or the product of the flags' lists. Pairs of operator and type that this
// build does not have are left out, and named on standard error.
std::vector<Case> Cases(const Flags& flags);

}  // namespace warpfold::benchmarks
