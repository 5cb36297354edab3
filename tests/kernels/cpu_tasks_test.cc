// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread of the CPU backend looks at the time between two tasks. If it is a shard's thread, all calls of
// that shard wait for a task, so a task must be short.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/segment_job.h"
#include "kernels/cpu/tasks.h"

namespace warpfold::kernels::cpu {
namespace {

std::size_t TasksOf(const std::vector<std::string>& operators, std::uint64_t segments, std::uint64_t length) {
  ReductionSpec spec;
  spec.operators = operators;
  spec.element_type = ElementType::kFloat32;
  const ReductionPlan plan = ReductionPlan::Create(spec).value();
  const std::vector<std::byte> elements(segments * length * sizeof(float));
  std::vector<std::uint64_t> values(2 << 20);
  SegmentJob job(BestInstructionSet(), values);
  SegmentCut cut;
  cut.segment_count = segments;
  cut.length = length;
  const HostPiece all = elements;
  job.Plan(plan, cut, PieceCursor({&all, 1}, nullptr));
  return job.tasks();
}

TEST(TasksTest, ASlotCountsItsResultsToo) {
  for (const std::size_t slot_bytes : {std::size_t{0}, std::size_t{64} << 10, std::size_t{5} << 20}) {
    const auto backend = MakeCpuBackend({.slots = 1, .slot_bytes = slot_bytes, .threads = 1});
    ASSERT_TRUE(backend.ok()) << backend.status();
    Slot& slot = *(*backend)->slots().front();
    EXPECT_EQ(slot.host_bytes(), slot.staging().size() / 4 * 5);
    EXPECT_EQ(slot.host_bytes(), HostBytesOfSlot(slot_bytes));
  }
}

TEST(TasksTest, ManyResultsAreManyTasksHoweverShortSegmentsAre) {
  const std::vector<std::string> sixteen = {
      "sum",    "min",           "max",    "mean",           "product",  "l1_norm", "l2_norm", "max_abs",
      "argmin", "count_nonzero", "argmax", "sum_of_squares", "variance", "stddev",  "first",   "last"};
  EXPECT_EQ(TasksOf({"sum"}, 10 * kTaskResults, 1), 10u);
  EXPECT_EQ(TasksOf(sixteen, 10 * kTaskResults, 1), 160u);
  EXPECT_EQ(TasksOf({"sum"}, kTaskResults, kTaskBytes / sizeof(float) / 128), kTaskResults / 128)
      << "longer ones are bounded by their bytes";
}

}  // namespace
}  // namespace warpfold::kernels::cpu
