// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the host passes to a textbook reduction, and the table of functions that launch one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/algorithm.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vocabulary.h"
#include "kernels/types.h"

namespace warpfold::kernels::cuda::textbook {

// A run of adjacent elements of an array, in device memory.
struct Section {
  const std::byte* data = nullptr;  // 16-byte aligned
  std::uint64_t element_count = 0;  // 1 or more
  std::uint64_t first_element = 0;  // the index of the first one in the array
};

// Launches the kernels of one algorithm; returns the first error of a launch. When the stream has reached
// that point, workspace.nodes begins with one State: that of the section (natural states are shorter than
// wide ones: they are their low bytes). workspace.partials has room for PartialStates(section.element_count)
// States.
using SectionLaunchFunction = cudaError_t (*)(const OperatorParameters& parameters, const Section& section,
                                              const Workspace& workspace, cudaStream_t stream);

// The most partials that any of the algorithms writes: one for each block, with those of every relaunch next
// to those of the launch before. Blocks have at least 32 threads, and n/32 + n/32^2 + ... is below n/16.
constexpr std::uint64_t PartialStates(std::uint64_t element_count) { return element_count / 16 + 16; }
// The largest section for which `partials` are enough.
constexpr std::uint64_t LargestSection(std::uint64_t partials) {
  return partials < 16 ? 0 : (partials - 16) * 16;
}
static_assert(PartialStates(LargestSection(1000)) == 1000);

// By Algorithm; null if it does not serve the operator, and for kAuto.
using Launchers = std::array<SectionLaunchFunction, kAlgorithmCount>;

struct LaunchersByOverflow {
  Launchers wide;     // states that cannot overflow
  Launchers natural;  // states as wide as the elements, for WRAP; null if there are none (natural_sum.h)

  SectionLaunchFunction For(Algorithm algorithm, const OperatorParameters& parameters) const {
    const auto i = static_cast<std::size_t>(algorithm);
    return parameters.wrap_overflow && natural[i] != nullptr ? natural[i] : wide[i];
  }
};

// The launchers of one family of operators; null if the family is not served (algorithm.h).
using Row = FunctionRow<const LaunchersByOverflow*>;

// The textbook's rows, in the order of the operator list.
std::span<const Row* const> Rows();

}  // namespace warpfold::kernels::cuda::textbook
