// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// These tests check which tasks a Start runs on its own thread, and which it leaves to the pool
// (docs/adr/0122). A stand-in takes the place of every operator: its tasks count themselves, take as long as
// a test wants, and can hold a thread of the pool. So no test depends on the speed of the machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/tasks.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cpu {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kTask = kTaskBytes / sizeof(double);  // elements
// The task of a Start that begins here holds its thread.
constexpr std::uint64_t kHeld = 1024 * kTask;
constexpr std::size_t kSlotBytes = 16 * kTaskBytes;

// What tasks do. They are plain functions, so that this is global.
struct Script {
  std::thread::id caller = std::this_thread::get_id();
  milliseconds task_time = {};
  std::atomic<int> on_caller = 0;  // tasks that ran on the thread that calls Start
  std::atomic<int> on_pool = 0;
  std::binary_semaphore is_held{0};
  std::binary_semaphore may_go_on{0};
};
std::unique_ptr<Script> script;

void RunTask() {
  std::this_thread::sleep_for(script->task_time);
  ++(std::this_thread::get_id() == script->caller ? script->on_caller : script->on_pool);
}

void RunSubtree(const OperatorParameters&, std::uint32_t, const std::byte*, std::uint64_t,
                std::uint64_t first, std::byte*) {
  if (first < kHeld || std::this_thread::get_id() == script->caller) return RunTask();
  script->is_held.release();
  script->may_go_on.acquire();
}

bool RunSegments(const OperatorParameters&, const CpuSegments&, const SegmentOut&) {
  RunTask();
  return true;
}

const InstructionSet& StandIn() {
  static const Row row = [] {
    Row all;
    for (auto& functions : all.scalar) functions.fill(RunSubtree);
    for (auto& functions : all.segments) functions.fill(RunSegments);
    return all;
  }();
  static const auto rows = AllRows<Row>(OperatorList(), []<class Family>() { return &row; });
  static const InstructionSet set = {.name = "stand-in", .runs_here = true, .rows = rows};
  return set;
}

// The pool works for kGreedy. kOther has had something before, so that kGreedy has a competitor.
class CpuYieldingTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kGreedy = 1;
  static constexpr std::uint64_t kOther = 2;

  ~CpuYieldingTest() override { Close(); }

  // Tasks take `task_time`, also the one that kOther has had.
  void Open(int threads, milliseconds task_time = {}) {
    script = std::make_unique<Script>();
    script->task_time = task_time;
    const BackendOptions options = {
        .slots = 3, .slot_bytes = kSlotBytes, .threads = threads, .inline_time = absl::ZeroDuration()};
    backend_ = MakeCpuBackend(options, StandIn()).value();
    slot(1).WorkFor(kOther);
    ASSERT_TRUE(slot(1).Start(Sum(), 0, kTask).ok());
    ASSERT_TRUE(slot(1).Wait().ok());
    script->on_pool = 0;
  }
  void Close() {
    if (std::exchange(is_held_, false)) script->may_go_on.release();
    backend_.reset();
  }

  // From now on one thread of the pool works, until LetPoolGoOn.
  void HoldThread() {
    slot(0).WorkFor(kGreedy);
    ASSERT_TRUE(slot(0).Start(Sum(), kHeld, kTask).ok());
    ASSERT_EQ(script->on_caller, 0) << "no thread of the pool works, so that none is held";
    script->is_held.acquire();
    is_held_ = true;
  }
  void LetPoolGoOn() {
    script->may_go_on.release();
    is_held_ = false;
    EXPECT_TRUE(slot(0).Wait().ok());
  }

  Slot& caller_slot(std::uint64_t group) {
    slot(2).WorkFor(group);
    return slot(2);
  }
  absl::Status Start(std::uint64_t group, int tasks) {
    return caller_slot(group).Start(Sum(), 0, static_cast<std::uint64_t>(tasks) * kTask);
  }
  // Whether a Start of two tasks by kGreedy runs both while a thread of the pool is held. Now and then the
  // system takes the processor from a task of kOther for so long that kGreedy is far behind, or from this
  // thread for longer than it would yield: so there are several attempts.
  bool Yields(int threads) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      Open(threads);
      HoldThread();
      EXPECT_TRUE(Start(kGreedy, 2).ok());
      const bool yields = script->on_caller == 2;
      LetPoolGoOn();
      EXPECT_TRUE(slot(2).Wait().ok());
      Close();
      if (yields) return true;
    }
    return false;
  }

  static ReductionPlan Sum() {
    ReductionSpec spec;
    spec.operators = {"sum"};
    spec.element_type = ElementType::kFloat64;
    return ReductionPlan::Create(spec).value();
  }
  Slot& slot(std::size_t i) { return *backend_->slots()[i]; }
  Backend& backend() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
  bool is_held_ = false;
};

TEST_F(CpuYieldingTest, WhoHasHadMostKeepsToTheThread) { EXPECT_TRUE(Yields(1)); }

TEST_F(CpuYieldingTest, ThreadsHelpUntilOneOfFourWorks) {
  EXPECT_TRUE(Yields(kBusyPart));
  Open(kBusyPart + 1);
  HoldThread();
  ASSERT_TRUE(Start(kGreedy, 2).ok());
  EXPECT_EQ(script->on_caller, 0);
}

TEST_F(CpuYieldingTest, WhoIsFarBehindHasThePool) {
  Open(1, std::chrono::duration_cast<milliseconds>(kFarBehind) + milliseconds(1));
  HoldThread();
  ASSERT_TRUE(Start(kGreedy, 2).ok());
  EXPECT_EQ(script->on_caller, 0);
  LetPoolGoOn();
  EXPECT_TRUE(slot(2).Wait().ok());
  EXPECT_EQ(script->on_pool, 2);
}

TEST_F(CpuYieldingTest, IdleThreadsHelpWhoHasHadMost) {
  Open(1);
  ASSERT_TRUE(Start(kGreedy, 2).ok());
  EXPECT_EQ(script->on_caller, 0);
}

TEST_F(CpuYieldingTest, WhatTakesLongIsLeftToThePool) {
  constexpr milliseconds kTaskTime(2);
  constexpr int kTasks = 4;
  Open(1, kTaskTime);
  HoldThread();
  ASSERT_TRUE(Start(kGreedy, kTasks).ok());
  EXPECT_LE(script->on_caller, (kYieldingTime + kTaskTime - milliseconds(1)) / kTaskTime);
  LetPoolGoOn();
  EXPECT_TRUE(slot(2).Wait().ok());
  EXPECT_EQ(script->on_caller + script->on_pool, kTasks);
}

TEST_F(CpuYieldingTest, WhatLiesInMemoryIsLeftToThePool) {
  const std::vector<std::byte> bytes(2 * kTaskBytes);
  Open(1);
  const auto memory = backend().Register(bytes).value();
  HoldThread();
  ASSERT_TRUE(caller_slot(kGreedy).StartFrom(Sum(), 0, 2 * kTask, *memory, 0).ok());
  EXPECT_EQ(script->on_caller, 0);
  LetPoolGoOn();
  EXPECT_TRUE(slot(2).Wait().ok());
}

// One message may have hundreds of them.
TEST_F(CpuYieldingTest, SegmentsAreLeftToThePool) {
  SegmentCut cut;
  cut.segment_count = 2 * kTaskResults;
  cut.length = 1;
  Open(1);
  HoldThread();
  ASSERT_TRUE(caller_slot(kGreedy).StartSegments(Sum(), cut).ok());
  EXPECT_EQ(script->on_caller, 0);
  LetPoolGoOn();
  EXPECT_TRUE(slot(2).WaitSegments().ok());
  EXPECT_EQ(script->on_pool, 2);
}

}  // namespace
}  // namespace warpfold::kernels::cpu
