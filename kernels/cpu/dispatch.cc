// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/dispatch.h"

#include <array>

#include "kernels/operators/operator_list.h"
#include "kernels/operators/table.h"

namespace warpfold::kernels::cpu {

// Defined by the generated sources, one per family and instruction set.
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

template <class... Families>
std::array<const Row*, sizeof...(Families)> BaselineRows(TypeList<Families...>) {
  return {&baseline::RowOf<Families>()...};
}
#if defined(WARPFOLD_X86_64)
template <class... Families>
std::array<const Row*, sizeof...(Families)> Avx2Rows(TypeList<Families...>) {
  return {&avx2::RowOf<Families>()...};
}
// All that those rows are compiled for (kernels/CMakeLists.txt).
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0 &&
         __builtin_cpu_supports("fma") != 0;
}
#endif

}  // namespace

std::span<const InstructionSet> InstructionSets() {
  static const auto baseline_rows = BaselineRows(OperatorList());
#if defined(WARPFOLD_X86_64)
  static const auto avx2_rows = Avx2Rows(OperatorList());
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

SubtreeFunction FunctionFor(const InstructionSet& isa, const Reduction& reduction, const BoundOperator& op) {
  const Row& row = *isa.rows[op.entry->reducer];
  const ReductionSpec& spec = reduction.spec();
  const int type = static_cast<int>(spec.element_type);
  if (op.entry->whole_matrix) return row.whole[type][WholeIndex(spec.shape)];
  const auto& table = spec.shape.is_matrix() ? row.entrywise : row.scalar;
  return table[type][op.entry->reducer_ignores_nan ? 1 : 0];
}

SegmentsFunction SegmentsFunctionFor(const InstructionSet& isa, const Reduction& reduction,
                                     const BoundOperator& op) {
  const ReductionSpec& spec = reduction.spec();
  return isa.rows[op.entry->family]->segments[static_cast<int>(spec.element_type)][spec.ignore_nan ? 1 : 0];
}

}  // namespace warpfold::kernels::cpu
