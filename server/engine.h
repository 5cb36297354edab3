// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What every reduction runs on: the device, its slots, the limits. Made once at start.
//
// Threads: constant after start; the parts are safe to share. Must outlive all calls.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "server/call_control.h"
#include "server/clock.h"
#include "server/slot_pool.h"

namespace warpfold::server {

// The largest message that a client may send. Clients send 0.5 to 2 MiB; this leaves room and bounds what
// one stream can make the server hold.
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{4} << 20;

struct Limits {
  std::uint64_t max_stream_bytes = std::uint64_t{1} << 40;
  int max_concurrent_reductions = 64;
  CallLimits call = {.idle = absl::Seconds(60), .duration = absl::Seconds(3600)};
  std::uint64_t slot_bytes = 0;  // for GetServerInfo
};

struct Engine {
  Engine(kernels::Backend& backend_in, const Limits& limits_in, Clock clock_in)
      : backend(backend_in), limits(limits_in), clock(std::move(clock_in)), slots(backend_in.slots()) {}

  kernels::Backend& backend;
  const Limits limits;
  const Clock clock;
  SlotPool slots;
  // Arrays smaller than this are reduced on the host, without a slot.
  std::uint64_t cpu_crossover_bytes = 0;
};

}  // namespace warpfold::server
