// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/dispatch.h"

#include "kernels/operators/operator_list.h"
#include "kernels/operators/rows.h"

namespace warpfold::kernels::cpu {

// Sources that CMake generates from kernels/row.in define it, one for each family and instruction set.
namespace baseline {
template <class Family>
const Row& RowOf();
}
#if defined(WARPFOLD_X86_64)
namespace avx2 {
template <class Family>
const Row& RowOf();
}
#endif

namespace {

#if defined(WARPFOLD_X86_64)
// All extensions that those rows are compiled for (kernels/CMakeLists.txt).
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0 &&
         __builtin_cpu_supports("fma") != 0;
}
#endif

}  // namespace

std::span<const InstructionSet> InstructionSets() {
  static const auto baseline_rows =
      AllRows<Row>(OperatorList(), []<class Family>() { return &baseline::RowOf<Family>(); });
#if defined(WARPFOLD_X86_64)
  static const auto avx2_rows =
      AllRows<Row>(OperatorList(), []<class Family>() { return &avx2::RowOf<Family>(); });
  static const InstructionSet sets[] = {{"baseline", true, baseline_rows}, {"avx2", HasAvx2(), avx2_rows}};
#else
  static const InstructionSet sets[] = {{"baseline", true, baseline_rows}};
#endif
  return sets;
}

const InstructionSet& BestInstructionSet() {
  static const InstructionSet& best = []() -> const InstructionSet& {
    const auto sets = InstructionSets();
    std::size_t i = sets.size() - 1;
    while (!sets[i].runs_here) --i;
    return sets[i];
  }();
  return best;
}

}  // namespace warpfold::kernels::cpu
