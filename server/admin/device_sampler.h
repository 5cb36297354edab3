// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Asks the driver now and then about the state of the devices, on a separate thread: the driver may take
// long, and a scrape must not wait for it.
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

  // `backend` must outlive the sampler. Throws std::system_error if there is no thread.
  explicit DeviceSampler(kernels::Backend& backend);
  // Waits for a request to the driver that is in progress. If the driver hangs, this takes as long as the
  // process lives.
  ~DeviceSampler();

  // The last sample; none if the driver reports nothing, or nothing yet. Does not wait.
  std::optional<Sample> last() const;

 private:
  void Run();

  kernels::Backend& backend_;
  mutable std::mutex mutex_;
  std::condition_variable ending_changed_;
  std::optional<Sample> last_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;
};

}  // namespace warpfold::server
