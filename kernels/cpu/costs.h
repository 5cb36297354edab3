// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long reductions take on this CPU, as measured while it serves: for the same bytes, the times of a sum
// of float32 and of sixteen slow operators differ by a factor of thousands, and those of a range and of many
// short segments by a factor of tens.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kernels/reduction.h"

namespace warpfold::kernels::cpu {

enum class CostOf : std::uint8_t { kRange, kSegments };

class Costs {
 public:
  // Notes that one thread took `took` for `bytes`. A call at most doubles the known time for a byte: now and
  // then a thread has to wait for its core, and then takes a hundred times as long.
  void Learn(const ReductionPlan& reduction, CostOf of, std::chrono::nanoseconds took, std::uint64_t bytes);

  // How many bytes one thread reduces in `time`, as far as is known. Before any measurement, the time that
  // slow operators would take is assumed.
  std::uint64_t BytesIn(const ReductionPlan& reduction, CostOf of, std::chrono::nanoseconds time) const;

 private:
  // Reductions that share an entry overwrite each other. The lower half of an entry is the picoseconds for a
  // byte, at least 1. The upper half is that of the key of the reduction that wrote it last.
  static constexpr std::size_t kEntries = 256;

  static std::uint64_t KeyOf(const ReductionPlan& reduction, CostOf of);
  std::uint64_t Picoseconds(const ReductionPlan& reduction, std::uint64_t key) const;

  std::array<std::atomic<std::uint64_t>, kEntries> entries_ = {};
};

}  // namespace warpfold::kernels::cpu
