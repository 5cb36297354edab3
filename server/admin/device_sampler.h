// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Asks the devices' driver how they are, now and then, on a thread of its own: the driver may take long,
// and whoever scrapes must not wait for it.
//
// Threads: the constructor and the destructor from one thread, the rest from any.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "kernels/backend.h"

namespace warpfold::server {

class DeviceSampler {
 public:
  struct Sample {
    absl::Time time;                                  // of day
    std::vector<kernels::DeviceTelemetry> telemetry;  // of each device
  };

  // `backend` must outlive the sampler. Throws std::system_error where there is no thread.
  explicit DeviceSampler(kernels::Backend& backend);
  // Waits for the driver's answer to a question that is under way.
  ~DeviceSampler();

  // Asks no more, and waits for that answer, at most `timeout`. Whether it has come: else a driver that hangs
  // would hold up the destructor, too.
  bool End(absl::Duration timeout);

  // The last; none where the driver tells nothing, or nothing yet. Does not wait.
  std::optional<Sample> last() const;

 private:
  void Run();

  kernels::Backend& backend_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Sample> last_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  bool has_ended_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace warpfold::server
