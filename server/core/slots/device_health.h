// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the device still works: what the backend says about it, and whether it finishes what it begins. A
// kernel that never ends raises no error, and the container platform's own health checks of the GPU do not
// see it (docs/adr/0044).
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "server/core/clock.h"
#include "server/core/watched_time.h"

namespace warpfold::server {

// How long the device may take for `bytes`: 10 s, and for each byte what its slots say.
absl::Duration DeviceDeadline(std::uint64_t bytes, absl::Duration most_time_per_byte);

// Waits until a slot that was given `bytes` has finished, but only until their deadline: then UNAVAILABLE
// (DEVICE_LOST), and nothing may wait for the device. For use before anybody is served.
absl::Status AwaitSlot(kernels::Slot& slot, std::uint64_t bytes, const Clock& clock);

// Tells another thread whether a thread is in a call to the device.
class DeviceCalls {
 public:
  // Marks the thread as being in a call for as long as the Scope lives. To be used on that thread.
  class Scope {
   public:
    explicit Scope(DeviceCalls& calls) : calls_(calls) { calls_.Next(); }
    ~Scope() { calls_.Next(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeviceCalls& calls_;
  };

  // How long the thread has been in its call, counted from the first of these queries that found it there. To
  // be called often, by one other thread.
  absl::Duration LastsFor(absl::Time now);

 private:
  void Next() { turns_.fetch_add(1, std::memory_order_relaxed); }

  std::atomic<std::uint64_t> turns_ = 0;  // odd in a call
  std::uint64_t seen_ = 0;
  WatchedTime lasts_;
};

class DeviceHealth {
 public:
  // `backend` must outlive this.
  explicit DeviceHealth(const kernels::Backend& backend) : backend_(backend) {}

  // OK, or UNAVAILABLE (DEVICE_LOST) from the first failure on. Then the process must end, and must not wait
  // for the work that the device was given.
  absl::Status fault() const;

  // The device is lost for the given reason, unless it was lost already.
  void Lose(absl::string_view why);

  // The device is given work of `bytes` bytes, or has done it. Begin returns how many bytes it then has: it
  // may process them in the order in which they came.
  std::uint64_t Begin(std::uint64_t bytes) { return bytes_ += bytes; }
  void End(std::uint64_t bytes) { bytes_ -= bytes; }

 private:
  const kernels::Backend& backend_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;
  absl::Status why_;  // guarded by mutex_
};

}  // namespace warpfold::server
