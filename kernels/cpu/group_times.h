// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// For how long threads (the pool's and those that call Start) have worked for each of the groups that share
// them. While threads are busy, a group that is not far behind the one that has had most leaves the pool to
// groups that are (docs/adr/0122).
//
// Threads: any. Threads that race here may briefly see a group too far ahead or behind, but no result depends
// on it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tuning.h"

namespace warpfold::kernels::cpu {

class GroupTimes {
 public:
  using Time = std::chrono::nanoseconds;
  // Threads have worked for the group for `took`.
  void Charge(std::uint64_t group, Time took);

  // Whether other groups compete, and this one is not far behind them.
  bool Yields(std::uint64_t group) const;

  // How many threads work now.
  int working() const { return working_.load(std::memory_order_relaxed); }

 private:
  friend class GroupWork;
  // Groups that share an entry count as one.
  static constexpr std::size_t kEntries = 256;

  std::array<std::atomic<std::int64_t>, kEntries> had_ = {};    // nanoseconds, here and below
  std::atomic<std::int64_t> most_ = 0;                          // the highest of had_
  std::atomic<std::int64_t> all_ = 0;                           // of all groups together
  std::atomic<std::size_t> last_ = kEntries;                    // the entry that was charged last
  std::atomic<std::int64_t> others_at_ = -kLately.count() - 1;  // all_ when an entry except last_ was charged
  std::atomic<int> working_ = 0;
};

// A thread works for a group, from its construction to its destruction.
class GroupWork {
 public:
  GroupWork(GroupTimes& times, std::uint64_t group) : times_(times), group_(group) {
    times_.working_.fetch_add(1, std::memory_order_relaxed);
  }
  ~GroupWork() {
    times_.working_.fetch_sub(1, std::memory_order_relaxed);
    times_.Charge(group_, std::chrono::steady_clock::now() - begin_);
  }
  GroupWork(const GroupWork&) = delete;
  GroupWork& operator=(const GroupWork&) = delete;

 private:
  GroupTimes& times_;
  const std::uint64_t group_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace warpfold::kernels::cpu
