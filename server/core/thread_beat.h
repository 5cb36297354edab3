// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tells another thread whether a thread makes progress. A thread that computes for long does: clients can
// make it do so. A thread that neither completes its loop nor computes is held up by something that it should
// never have waited for (docs/adr/0106).
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "server/core/watched_time.h"

namespace warpfold::server {

class ThreadBeat {
 public:
  // The thread calls Beat at each turn of its loop, at least once in kLongestRest.
  static constexpr absl::Duration kLongestRest = absl::Seconds(5);
  void Beat() { turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // For how long it has neither beaten nor computed, given that it has had `computed` of processor time so
  // far. Call this often, from one other thread.
  absl::Duration RestsFor(absl::Time now, absl::Duration computed) {
    const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
    const bool beats = turns != std::exchange(seen_, turns);
    const bool computes = computed != std::exchange(computed_, computed);
    if (beats || computes) rests_ = {};
    return rests_.Advance(now);
  }

 private:
  std::atomic<std::uint64_t> turns_ = 0;
  std::uint64_t seen_ = 0;
  absl::Duration computed_;
  WatchedTime rests_;
};

}  // namespace warpfold::server
