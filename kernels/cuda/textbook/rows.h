// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The textbook's rows, by the name of their operator.
#pragma once

#include <string_view>

#include "kernels/cuda/textbook/launch.h"

namespace warpfold::kernels::cuda::textbook {

// The row of an operator that the textbook serves (algorithm.h).
const Row& RowNamed(std::string_view name);

}  // namespace warpfold::kernels::cuda::textbook
