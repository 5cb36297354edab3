// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// All kernels over segments.
#pragma once

#include <span>

#include "kernels/cuda/segments/segment_plan.h"

namespace warpfold::kernels::cuda {

// In the order of the operator list.
std::span<const SegmentRow* const> SegmentRows();

}  // namespace warpfold::kernels::cuda
