// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// All calls in progress, so that limits can be enforced on them and all of them stopped at once.
//
// Threads: all methods from any thread. Callbacks run on the thread that sweeps, without locks held.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/call_control.h"

namespace warpfold::server {

class CallRegistry {
 public:
  // Keeps a call in the registry while it lives.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class CallRegistry;
    Registration(CallRegistry* registry, const CallControl* call) : registry_(registry), call_(call) {}
    CallRegistry* registry_ = nullptr;
    const CallControl* call_ = nullptr;
  };

  // `on_stop` is called, at most once, after the registry has stopped the call; it may come while or
  // after the registration ends.
  Registration Add(std::shared_ptr<CallControl> call, std::function<void()> on_stop);

  // Stops the calls that are overdue at `now`.
  void Sweep(absl::Time now);

  // Stops every call.
  void StopAll(const absl::Status& why);

 private:
  struct Entry {
    std::shared_ptr<CallControl> call;
    std::function<void()> on_stop;
  };
  std::vector<Entry> Snapshot() const;

  mutable std::mutex mutex_;
  std::unordered_map<const CallControl*, Entry> entries_;  // guarded by mutex_
};

}  // namespace warpfold::server
