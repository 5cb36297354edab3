// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The places that call CUDA, as the sources of the backend have them.
#pragma once

#include <set>
#include <string>

#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {

// Reads kernels/cuda of the tree at `root`. For a call within WARPFOLD_RETURN_IF_CUDA_ERROR the line is that
// of the macro, as compilers report it.
std::set<CallSite> CallSitesOf(const std::string& root);

}  // namespace warpfold::kernels::shim
