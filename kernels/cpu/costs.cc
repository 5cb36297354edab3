// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/costs.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "kernels/cpu/tuning.h"

namespace warpfold::kernels::cpu {
namespace {

constexpr std::uint64_t kLowerHalf = 0xffffffff;

// Products of matrices take longer the larger the matrices are.
std::uint64_t AssumedPicoseconds(const ReductionPlan& reduction) {
  const std::uint64_t rows = std::max<std::uint64_t>(reduction.spec().shape.rows, 4);
  return kAssumedPicoseconds * reduction.operators().size() * rows / 4;
}

}  // namespace

// What the time depends on. An entry is for one operator over one element type.
std::uint64_t Costs::KeyOf(const ReductionPlan& reduction, CostOf of) {
  const ReductionSpec& spec = reduction.spec();
  std::size_t hash = absl::HashOf(of, spec.shape.entries(), spec.ignore_nan, spec.modulus.has_value());
  for (const BoundOperator& op : reduction.operators()) hash = absl::HashOf(hash, op.entry);
  return hash;
}

std::uint64_t Costs::Picoseconds(const ReductionPlan& reduction, std::uint64_t key) const {
  const std::uint64_t entry = entries_[key % kEntries].load(std::memory_order_relaxed);
  const bool is_known = entry != 0 && ((entry ^ key) & ~kLowerHalf) == 0;
  return is_known ? entry & kLowerHalf : AssumedPicoseconds(reduction);
}

void Costs::Learn(const ReductionPlan& reduction, CostOf of, std::chrono::nanoseconds took,
                  std::uint64_t bytes) {
  const std::uint64_t key = KeyOf(reduction, of);
  const std::uint64_t known = Picoseconds(reduction, key);
  const std::uint64_t most = std::min(2 * known, kLowerHalf);
  const std::uint64_t measured = static_cast<std::uint64_t>(took.count()) * 1000 / bytes;
  entries_[key % kEntries].store((key & ~kLowerHalf) | std::clamp<std::uint64_t>(measured, 1, most),
                                 std::memory_order_relaxed);
}

std::uint64_t Costs::BytesIn(const ReductionPlan& reduction, CostOf of, std::chrono::nanoseconds time) const {
  return static_cast<std::uint64_t>(time.count()) * 1000 / Picoseconds(reduction, KeyOf(reduction, of));
}

}  // namespace warpfold::kernels::cpu
