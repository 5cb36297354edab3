// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// All shards share one service: the device, the limits, the admission of calls. It is made once at start.
//
// Threads: constant once the first shard exists, but for device, admission, memories, residents and health,
// which any thread may use. Must outlive the shards.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "server/core/admission.h"
#include "server/core/clock.h"
#include "server/core/crossover.h"
#include "server/core/device_health.h"
#include "server/core/limits.h"
#include "server/core/memory_registry.h"
#include "server/core/resident_arrays.h"

namespace warpfold::server {

// A call that has been answered, for the log.
struct CallRecord {
  std::string method;
  std::string peer;
  std::string request_id;  // the client's, printable
  absl::Status status;
  std::uint64_t bytes = 0;  // of array data
  absl::Duration took;
};

struct Service {
  Service(kernels::Backend& backend_in, const Limits& limits_in, Clock clock_in)
      : backend(backend_in),
        device(backend_in),
        limits(limits_in),
        clock(std::move(clock_in)),
        admission(limits_in.max_concurrent_reductions) {}

  kernels::Backend& backend;
  DeviceHealth device;
  const Limits limits;
  const Clock clock;
  // Arrays of fewer bytes than either says are reduced on the shard's thread, without a slot.
  Crossovers crossovers;
  std::uint64_t cpu_crossover_bytes = 0;  // whatever the operator
  // Called on the shard's thread for every answered call; must not block.
  std::function<void(const CallRecord&)> log_call = [](const CallRecord&) {};

  Admission admission;
  MemoryRegistry memories;
  ResidentArrays residents{memories};
  std::atomic<bool> serving = true;  // what health says
};

}  // namespace warpfold::server
