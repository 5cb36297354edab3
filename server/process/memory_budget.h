// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much memory of the host the flags let clients make the server hold, and whether the process may have so
// much. A call counts with what one holds that keeps to the protocol; others are kept to the sum of all by a
// quota (docs/adr/0094). Memory that clients register is theirs, and not in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/flags.h"

namespace warpfold::server {

// Bytes.
struct MemoryBudget {
  std::uint64_t base = 0;  // the process, and what a device's driver keeps
  // Connections, and the calls on them that are not admitted yet, or are refused.
  std::uint64_t connections = 0;
  std::uint64_t slots = 0;     // staging buffers, on a GPU with the tables beside them
  std::uint64_t pinned = 0;    // of them: memory of a GPU's driver, which is not the process' own
  std::uint64_t receive = 0;   // to receive messages into, on a GPU
  std::uint64_t calls = 0;     // what reductions and merges in progress may hold
  std::uint64_t small = 0;     // likewise, calls about the server, probes and watches
  std::uint64_t answers = 0;   // what clients do not take
  std::uint64_t resident = 0;  // kept arrays, where they are in memory of the host

  // The part that clients have sent, until the service has done with it: gRPC's quota (docs/adr/0094).
  std::uint64_t received() const { return receive + calls + small + answers; }
  std::uint64_t total() const {
    return base + connections + slots + receive + calls + small + answers + resident;
  }
};

// What a backend has taken by the start.
struct BackendMemory {
  int gpus = 0;                  // where there are some, resident arrays are in their memory
  std::uint64_t host_bytes = 0;  // of all slots together (kernels::Slot::host_bytes)
  std::uint64_t slot_bytes = 0;  // of the staging buffer of one
  std::uint64_t receive_bytes = 0;
  int shards = 1;  // that will use it
};

MemoryBudget BudgetOf(const Flags& flags, const BackendMemory& backend);

// "memory: at most 1478 MiB (of them base 64, slots 8, ...)".
std::string ToText(const MemoryBudget& budget);

// INVALID_ARGUMENT with the flag of the largest part if the budget is above `limit`.
absl::Status CheckBudget(const MemoryBudget& budget, const Flags& flags, std::optional<std::uint64_t> limit);

// How many slots each device gets.
int SlotsOf(const Flags& flags);

// INVALID_ARGUMENT with the flags if the slots that they ask for, which are taken at the start, are more than
// `available`.
absl::Status CheckSlots(const Flags& flags, std::uint64_t available);

}  // namespace warpfold::server
