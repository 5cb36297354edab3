// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of all operators, in the order of the operator list, of the kernels over segments.
#pragma once

#include <span>

#include "kernels/cuda/segments/segment_plan.h"

namespace warpfold::kernels::cuda {

std::span<const SegmentFunctionRow* const> SegmentRows();

}  // namespace warpfold::kernels::cuda
