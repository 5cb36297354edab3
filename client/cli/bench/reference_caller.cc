// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "client/cli/bench/caller.h"
#include "client/cli/bench/gpu_memory.h"
#include "client/client.h"
#include "client/shared_memory.h"

namespace warpfold::cli {
namespace {

// A server that answers nothing is an error, not a wait without an end.
constexpr absl::Duration kTimeout = absl::Minutes(2);

// What must live as long as calls name it. The memory goes before the client, and the registration before the
// memory.
struct Elsewhere {
  std::unique_ptr<Client> client;
  std::optional<SharedMemory> shared;
  std::optional<GpuMemory> gpu;
  std::optional<RegisteredMemory> registered;
  std::optional<ResidentArray> resident;
  std::string token;

  ~Elsewhere() {
    if (resident.has_value()) client->DeleteArray(resident->token, {.timeout = kTimeout}).IgnoreError();
  }
};

absl::Status Share(const std::string& memory_socket, std::span<const std::byte> memory, Elsewhere& there) {
  const absl::StatusOr<MemoryConnection> connection = MemoryConnection::Open(memory_socket);
  if (!connection.ok()) return connection.status();
  absl::StatusOr<SharedMemory> shared = connection->Allocate(memory.size());
  if (!shared.ok()) return shared.status();
  std::memcpy(shared->data().data(), memory.data(), memory.size());
  there.shared.emplace(*std::move(shared));
  there.token = there.shared->token();
  return absl::OkStatus();
}

absl::Status HandOver(const std::string& memory_socket, std::span<const std::byte> memory, Elsewhere& there) {
  const absl::StatusOr<MemoryConnection> connection = MemoryConnection::Open(memory_socket);
  if (!connection.ok()) return connection.status();
  absl::StatusOr<GpuMemory> gpu = GpuMemory::CopyOf(memory);
  if (!gpu.ok()) return gpu.status();
  there.gpu.emplace(*std::move(gpu));
  absl::StatusOr<RegisteredMemory> registered =
      connection->RegisterGpu(there.gpu->handle(), 0, memory.size());
  if (!registered.ok()) return registered.status();
  there.registered.emplace(*std::move(registered));
  there.token = there.registered->token();
  return absl::OkStatus();
}

absl::Status Put(ElementType type, std::span<const std::byte> memory, Elsewhere& there) {
  absl::StatusOr<ResidentArray> resident =
      there.client->PutBytes(type, std::nullopt, memory, {.owner = "warpfold bench"}, {.timeout = kTimeout});
  if (!resident.ok()) return resident.status();
  there.resident = *std::move(resident);
  there.token = there.resident->token;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Caller> MakeReferenceCaller(const Server& server, const BenchFlags& flags,
                                           std::span<const std::byte> memory,
                                           const std::string& memory_socket) {
  auto there = std::make_shared<Elsewhere>();
  there->client = std::make_unique<Client>(
      server.target, ClientOptions{.connections = 1, .credentials = server.credentials});
  absl::Status status;
  if (flags.source == BenchSource::kMemory) status = Share(memory_socket, memory, *there);
  if (flags.source == BenchSource::kIpc) status = HandOver(memory_socket, memory, *there);
  if (flags.source == BenchSource::kResident) status = Put(flags.type, memory, *there);
  if (!status.ok()) return status;
  const Spec spec = {.operators = absl::StrSplit(flags.op, ','), .wrap_overflow = true};
  const std::uint64_t element_bytes = ElementTypeBytes(flags.type);
  return [there, spec, type = flags.type, element_bytes,
          begin = memory.data()](std::span<const std::byte> array) {
    const ArrayReference reference = {.token = there->token,
                                      .byte_offset = static_cast<std::uint64_t>(array.data() - begin),
                                      .element_count = array.size() / element_bytes};
    return there->client->ReduceReference(spec, type, reference, {.timeout = kTimeout});
  };
}

}  // namespace warpfold::cli
