// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's functions, for the best instruction set that this machine has.
#pragma once

#include <span>

#include "absl/strings/string_view.h"
#include "kernels/cpu/row.h"

namespace warpfold::kernels::cpu {

struct InstructionSet {
  absl::string_view name;
  bool runs_here = false;
  std::span<const Row* const> rows;  // in the order of the operator list
};

// Those that are built, the plainest first. All give the same bits.
std::span<const InstructionSet> InstructionSets();
// The last of them that runs on this machine.
const InstructionSet& BestInstructionSet();

}  // namespace warpfold::kernels::cpu
