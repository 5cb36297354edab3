// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much host memory the flags let clients make the server hold, and whether the process may have that
// much. Each call is counted with what a call that keeps to the protocol holds; a quota limits other calls to
// the sum of all (docs/adr/0094). Memory that clients register is theirs, and is not included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/flags.h"

namespace warpfold::server {

// Bytes.
struct MemoryBudget {
  std::uint64_t base = 0;  // the process, and memory that a device's driver keeps
  // Connections, and the calls on them that are not admitted yet, or are rejected.
  std::uint64_t connections = 0;
  std::uint64_t slots = 0;     // staging buffers, on a GPU with the tables beside them
  std::uint64_t pinned = 0;    // of them: memory of a GPU's driver, which does not belong to the process
  std::uint64_t receive = 0;   // to receive messages into, on a GPU
  std::uint64_t calls = 0;     // what reductions and merges in progress may hold
  std::uint64_t small = 0;     // likewise, calls about the server, probes and watches
  std::uint64_t answers = 0;   // answers that clients do not read
  std::uint64_t resident = 0;  // kept arrays, if they are in host memory

  // The part that clients have sent and the service has not yet finished with: gRPC's quota (docs/adr/0094).
  std::uint64_t received() const { return receive + calls + small + answers; }
  std::uint64_t total() const {
    return base + connections + slots + receive + calls + small + answers + resident;
  }
};

// The memory that a backend has taken by the start.
struct BackendMemory {
  int gpus = 0;                  // if there are any, kept arrays are in their memory
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

// RESOURCE_EXHAUSTED with the flags if the slots that they request, which are allocated at the start, need
// more than `available`.
absl::Status CheckSlots(const Flags& flags, std::uint64_t available);

}  // namespace warpfold::server
