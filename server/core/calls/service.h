// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// All shards share one service: the device, the limits, the admission of calls. It is made once at startup.
//
// Threads: device, admission, access, answers, memories, residents, tags and `serving` may be used by any
// thread; the rest is constant once the first shard exists. Must outlive the shards.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "kernels/backend.h"
#include "server/core/admission/admission.h"
#include "server/core/admission/allow_list.h"
#include "server/core/admission/party_tags.h"
#include "server/core/admission/pending_answers.h"
#include "server/core/call_observer.h"
#include "server/core/clock.h"
#include "server/core/limits.h"
#include "server/core/references/memory_registry.h"
#include "server/core/references/resident_arrays.h"
#include "server/core/slots/crossover.h"
#include "server/core/slots/device_health.h"

namespace warpfold::server {

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
  bool reflection = false;                // whether the server has the reflection service
  // Is told of every call; null for nobody.
  CallObserver* observer = nullptr;

  Admission admission;
  Access access;
  PendingAnswers answers;
  MemoryRegistry memories;
  ResidentArrays residents{memories};
  PartyTags tags;
  std::atomic<bool> serving = true;

  // What the health service reports. A fault of the device counts at once, before the watchdog has acted on
  // it.
  bool is_serving() const { return serving && device.fault().ok(); }
};

}  // namespace warpfold::server
