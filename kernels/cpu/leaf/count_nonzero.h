// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts for count_nonzero, all and any.
#pragma once

#include "kernels/cpu/leaf/nonzero_count.h"
#include "kernels/cpu/scalar_leaf.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class T, bool kIgnoreNan>
struct ScalarLeaf<CountNonzero<T, kIgnoreNan>> {
  static std::uint32_t Reduce(const CountNonzero<T, kIgnoreNan>&, const std::byte* data,
                              std::uint64_t count) {
    return CountOfNonzero<T, kIgnoreNan>(data, count);
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
