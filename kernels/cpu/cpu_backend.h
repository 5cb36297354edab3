// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU as a backend: slots are plain memory, and a pool of threads reduces their subtrees.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/dispatch.h"

namespace warpfold::kernels::cpu {

std::unique_ptr<Backend> MakeCpuBackend(const BackendOptions& options,
                                        const InstructionSet& isa = BestInstructionSet());

}  // namespace warpfold::kernels::cpu
