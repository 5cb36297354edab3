// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/memory_budget.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/devices.h"
#include "server/core/admission/admission.h"
#include "server/core/admission/pending_answers.h"
#include "server/core/limits.h"
#include "server/core/wire/wire_guard.h"
#include "server/memory/memfd_sealer.h"
#include "server/rpc/rpc_server.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Measured: 22 MiB for a server that is ready on the CPU (docs/reliability.md). CUDA's libraries and context
// take some hundreds of MiB more.
constexpr std::uint64_t kBaseBytes = 64 * kMiB;
constexpr std::uint64_t kDriverBytes = 512 * kMiB;

// A process that seals memfds has 2 MiB of its own, and the kernel some more for it.
constexpr std::uint64_t kSealerBytes = 3 * kMiB;
std::uint64_t SealersBytes(const Flags& flags) {
  if (flags.memory_socket.empty()) return 0;
  return (1 + flags.memory_socket_users.size()) * MemfdSealer::kProcessesOfOneUser * kSealerBytes;
}

constexpr std::uint64_t kMessageBytes = kMaxPayloadBytes + kMaxFramingBytes;
// A reduction: a message with the largest payload, and after it the window of its stream. It may be one of
// segments, which has results that wait, a message of results that is being sent, and lengths; and bytes of
// an incomplete segment, fewer than a slot has.
constexpr std::uint64_t kReductionBytes = kMessageBytes + kStreamWindowBytes + kMaxWaitingResultBytes +
                                          kMaxResultBytes + kMaxLengthsAhead * sizeof(std::uint64_t);
std::uint64_t HeldBytes(const BackendMemory& backend) { return std::min(backend.slot_bytes, kMaxHeldBytes); }
// If slots are so large that more than kMaxWaitingResultBytes of results may wait: how many more.
std::uint64_t MoreResultBytes(const BackendMemory& backend) {
  return WaitingResultBytes(backend.slot_bytes) - kMaxWaitingResultBytes;
}

// A shard that merges holds the message in one piece, and what protobuf makes of as many fields as there may
// be (wire_guard.h), at 96 bytes each.
constexpr std::uint64_t kMergingBytes = kMessageBytes + kMaxFields * 96;

std::uint64_t ConnectionsOf(const Flags& flags) {
  return flags.max_connections > 0 ? static_cast<std::uint64_t>(flags.max_connections) : kDefaultConnections;
}

std::uint64_t MiB(std::uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

}  // namespace

MemoryBudget BudgetOf(const Flags& flags, const BackendMemory& backend) {
  const auto places = static_cast<std::uint64_t>(flags.max_concurrent_reductions);
  const std::uint64_t shards = static_cast<std::uint64_t>(backend.shards);
  const auto streams = static_cast<std::uint64_t>(StreamsOfConnection(flags.max_concurrent_reductions));
  return {
      .base = kBaseBytes + static_cast<std::uint64_t>(backend.gpus) * kDriverBytes + SealersBytes(flags),
      .connections = ConnectionsOf(flags) * (kConnectionBytes + streams * kStreamBytes),
      .slots = backend.host_bytes,
      .pinned = backend.gpus > 0 ? backend.host_bytes : 0,
      .receive = backend.receive_bytes,
      // There are as many places for merges as for reductions.
      .calls = places * (kReductionBytes + MoreResultBytes(backend) + HeldBytes(backend) + kMessageBytes) +
               shards * kMergingBytes,
      .small = (Admission::kSmallPlaces + Admission::kCheckPlaces) * kMaxFramingBytes +
               Admission::kWatchPlaces * PendingAnswers::kCallBytes,
      .answers = kMaxPendingAnswerBytes,
      .resident = backend.gpus > 0 ? 0 : flags.resident_bytes};
}

std::string ToText(const MemoryBudget& budget) {
  return absl::StrCat("memory: at most ", MiB(budget.total()), " MiB (of them base ", MiB(budget.base),
                      ", connections ", MiB(budget.connections), ", slots ", MiB(budget.slots),
                      ", to receive into ", MiB(budget.receive), ", calls ", MiB(budget.calls),
                      ", small calls ", MiB(budget.small), ", answers ", MiB(budget.answers),
                      ", resident arrays ", MiB(budget.resident), ")");
}

absl::Status CheckBudget(const MemoryBudget& budget, const Flags& flags, std::optional<std::uint64_t> limit) {
  if (!limit.has_value() || budget.total() <= *limit) return absl::OkStatus();
  const std::array<std::pair<std::uint64_t, std::string>, 4> parts = {{
      {budget.connections, absl::StrCat("--max_connections=", ConnectionsOf(flags))},
      {budget.calls, absl::StrCat("--max_concurrent_reductions=", flags.max_concurrent_reductions)},
      {budget.slots + budget.receive, absl::StrCat("--slots=", SlotsOf(flags))},
      {budget.resident, absl::StrCat("--resident_bytes=", flags.resident_bytes)},
  }};
  const auto largest = std::max_element(parts.begin(), parts.end());
  return absl::InvalidArgumentError(absl::StrCat(largest->second, ": ", ToText(budget),
                                                 ", but the control group of the process allows ",
                                                 *limit / kMiB, " MiB"));
}

int SlotsOf(const Flags& flags) {
  // One is filled while the device has the other.
  constexpr int kSlotsPerShard = 2;
  return flags.slots > 0 ? flags.slots : kSlotsPerShard * ShardCount(SIZE_MAX);
}

absl::Status CheckSlots(const Flags& flags, std::uint64_t available) {
  std::string asked;
  if (flags.slots > 0) absl::StrAppend(&asked, " --slots=", flags.slots);
  if (flags.slot_bytes > 0) absl::StrAppend(&asked, " --slot_bytes=", flags.slot_bytes);
  if (asked.empty()) return absl::OkStatus();
  // At least one device, if the flag does not say how many.
  const auto gpus = kernels::ParseGpus(flags.device).value_or(std::vector<int>());
  const std::uint64_t devices = std::max<std::uint64_t>(gpus.size(), 1);
  const std::uint64_t bytes =
      devices *
      kernels::HostBytesOfSlots(flags.device, {.slots = SlotsOf(flags), .slot_bytes = flags.slot_bytes});
  if (bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(asked.substr(1), ": ", MiB(bytes), " MiB, but ",
                                                   available / kMiB, " MiB of memory are available"));
}

}  // namespace warpfold::server
