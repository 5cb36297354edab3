// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One launch on a simt::Device: its blocks, their threads as fibers (Boost.Context), and where they wait.
//
// A thread runs until it waits for others, or ends. The loop in Run then resumes another one, chosen by the
// schedule. So a thread never sees another one in the middle of something; instead, each seed tries a
// different order of the code between synchronisations.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/simt/device.h"
#include "kernels/simt/schedule.h"
#include "kernels/simt/stacks.h"
#include "kernels/simt/visibility.h"

namespace warpfold::kernels::simt {

inline constexpr unsigned kLanesOfWarp = 32;

class Executor {
 public:
  Executor(Device& device, const LaunchSpec& spec, const std::function<void()>& kernel);
  // Runs the launch to its end, or to the device's failure.
  void Run();

  // The executor whose fiber runs on this thread of the host.
  static Executor& Running();

  // These are called on fibers: see device.h.
  void SyncBlock(const Where& where);
  void SyncGrid(const Where& where);
  void Fence(const Where& where);
  std::uint64_t MeetWarp(WarpCall call, unsigned mask, std::uint64_t value, int source, const Where& where);
  unsigned ChangeAtomically(unsigned* address, Order order, const std::function<unsigned(unsigned)>& change,
                            const Where& where);
  std::byte* SharedMemory(const void* key, std::size_t bytes);

 private:
  enum class Doing { kRuns, kWaitsForBlock, kWaitsForWarp, kWaitsForGrid, kHasEnded };

  struct Thread {
    boost::context::fiber fiber;      // of this thread, while others run
    boost::context::fiber scheduler;  // of Run, while it runs
    unsigned number = 0;
    std::uint64_t rank = 0;
    Doing doing = Doing::kRuns;
    // The call in which it waits.
    Where where;
    WarpCall call = WarpCall::kSync;
    unsigned mask = 0;
    int source = 0;
    std::uint64_t value = 0;  // its own, then the result of all lanes
  };

  struct Warp {
    unsigned lanes = 0;    // those that have not ended
    unsigned waiting = 0;  // those of them that wait for others of the warp
  };

  struct SharedVariable {
    const void* key;
    std::size_t offset;
  };

  struct Block {
    unsigned number = 0;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<std::pair<std::uint64_t, unsigned>> runnable;  // a heap of ranks and threads
    unsigned alive = 0;
    unsigned at_barrier = 0;
    Visibility::View view;
    std::unique_ptr<std::byte[]> shared;
    std::vector<SharedVariable> variables;
    std::size_t shared_bytes = 0;  // of variables
  };

  std::unique_ptr<Block> BeginBlock(unsigned number);
  void BeginThread(Block& block, Thread& thread);
  void EndThread(Block& block, Thread& thread);
  Block* ChooseBlock();
  void RunBlock(Block& block);
  void Enter(Block& block);
  void Resume(Thread& thread);
  // Called on a fiber: others run until this one is made runnable, and chosen.
  void Suspend();
  void MakeRunnable(Block& block, Thread& thread);
  void PassBarrier(Block& block);
  void PassGrid();
  // Lets the lanes of a mask pass, if all of them are there.
  void TryToMeet(Block& block, const Thread& last);
  void Exchange(Block& block, const Thread& last, unsigned lanes);
  void FillByChance(std::byte* bytes, std::size_t count);

  bool IsRemoved(const Where& where, Part part) const;
  bool HasFailed() const { return !device_.failure_.empty(); }
  void Fail(const Block& block, const Thread& thread, const std::string& what);
  void FailStuck();
  std::string Waiting(const Thread& thread) const;

  Device& device_;
  const LaunchSpec spec_;
  const std::function<void()>& kernel_;
  Schedule schedule_;
  Visibility visibility_;
  std::vector<std::unique_ptr<Block>> blocks_;  // resident
  std::uint64_t at_grid_barrier_ = 0;
  unsigned turns_ = 0;        // that the running block has left
  Block* entered_ = nullptr;  // whose view is in the memory
  // The block and the thread whose fiber is running.
  Block* block_ = nullptr;
  Thread* thread_ = nullptr;
};

}  // namespace warpfold::kernels::simt
