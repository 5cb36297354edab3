// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Results as plain tuples, from which warpfold.results makes NumPy values.
#pragma once

#include <nanobind/nanobind.h>

#include "client/result.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::python {

// (total, queue, receive, copy, kernel) in seconds.
nanobind::tuple TimingsTuple(const Timings& timings);

// (outcomes, element count, device, timings). An outcome is (operator, value, index, end_index, error parts),
// with None for anything that is absent. A value is a number; for a matrix (rows, columns, [entries]); for
// fields a dict.
nanobind::tuple ResultTuple(const Reduction& reduction);

// The value of the first operator, which returns one number.
nanobind::object FirstNumber(const Reduction& reduction);

nanobind::dict InfoDict(const v1::GetServerInfoResponse& info);

}  // namespace warpfold::python
