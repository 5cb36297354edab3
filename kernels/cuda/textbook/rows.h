// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The textbook's rows, in the order of the operator list.
#pragma once

#include <span>

#include "kernels/cuda/textbook/launch.h"

namespace warpfold::kernels::cuda::textbook {

std::span<const Row* const> Rows();

}  // namespace warpfold::kernels::cuda::textbook
