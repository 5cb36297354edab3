// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/opening.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/shared/system_memory.h"
#include "server/admin/http_server.h"
#include "server/log/logging.h"
#include "server/rpc/receive_arena.h"
#include "server/server_main.h"

namespace warpfold::server {
namespace {

constexpr char kOwnExecutable[] = "/proc/self/exe";

// How much of the host's memory all slots have, including tables.
std::uint64_t HostBytes(kernels::Backend& backend) {
  std::uint64_t bytes = 0;
  for (const auto& slot : backend.slots()) bytes += slot->host_bytes();
  return bytes;
}

// How many bytes of arrays all slots hold at once.
std::size_t SlotBytes(kernels::Backend& backend) {
  return backend.slots().size() * backend.slots().front()->staging().size();
}

// How many descriptors the pages and the memory socket may open while the server serves.
std::size_t OtherDescriptors(const Flags& flags) {
  return (flags.admin_listen.empty() ? 0 : HttpServer::kDescriptors) +
         (flags.memory_socket.empty() ? 0 : MemorySocket::Descriptors(flags.memory_socket_users.size()));
}

}  // namespace

Limits LimitsOf(const Flags& flags, kernels::Backend& backend) {
  Limits limits = {.max_stream_bytes = flags.max_stream_bytes,
                   .max_concurrent_reductions = flags.max_concurrent_reductions,
                   .call = {.idle = absl::Seconds(flags.idle_timeout_seconds),
                            .duration = absl::Seconds(flags.max_stream_seconds)},
                   .slots = backend.slots().size(),
                   .slot_bytes = backend.slots().front()->staging().size()};
  // One client may have half of the connections.
  const std::size_t most = flags.max_connections;
  const auto of_peer = static_cast<int>(std::min<std::size_t>(most - most / 2, limits.advised_streams));
  if (most > 0) limits.advised_streams = of_peer;
  return limits;
}

absl::Status OpenResidentArrays(const Flags& flags, Service& service) {
  if (flags.resident_bytes == 0) return absl::OkStatus();
  // Memory of the host is taken immediately: a system that has less of it would kill the process without
  // saying why.
  const std::uint64_t available = AvailableMemory();
  if (service.backend.name() != "cuda" && flags.resident_bytes > available) {
    return absl::ResourceExhaustedError(absl::StrCat(available >> 20, " MiB of memory are available"));
  }
  const int devices = service.backend.devices();
  const std::uint64_t of_each = flags.resident_bytes / static_cast<std::uint64_t>(devices);
  if (of_each < ResidentArrays::kLeastBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "each device needs at least ", ResidentArrays::kLeastBytes, " bytes: an array takes a multiple of ",
        RangeAllocator::kAlignment, ", and one client may use at most seven eighths"));
  }
  std::vector<std::unique_ptr<kernels::Memory>> memories;
  for (int device = 0; device < devices; ++device) {
    absl::StatusOr<std::unique_ptr<kernels::Memory>> memory = service.backend.Allocate(device, of_each);
    if (!memory.ok()) return memory.status();
    memories.push_back(*std::move(memory));
  }
  ResidentArrays::Limits limits;
  limits.owner_bytes = flags.resident_owner_bytes > 0 ? flags.resident_owner_bytes : flags.resident_bytes;
  service.residents.Open(std::move(memories), limits);
  return absl::OkStatus();
}

void OpenReceiving(kernels::Backend& backend) {
  if (!backend.opens_pieces()) return;
  if (!CanUseForReceiving()) {
    return Log(LogLevel::kWarning,
               "arrays are copied on their way: this release of gRPC receives into its own memory");
  }
  absl::StatusOr<std::unique_ptr<ReceiveArena>> arena = ReceiveArena::Create(2 * SlotBytes(backend));
  const absl::Status status = arena.ok() ? backend.OpenPieces((*arena)->memory()) : arena.status();
  if (!status.ok()) {
    return Log(LogLevel::kWarning, absl::StrCat("arrays are copied on their way: ", status.message()));
  }
  UseForReceiving(*std::move(arena));
}

absl::StatusOr<MemoryBudget> CheckMemory(const Flags& flags, kernels::Backend& backend) {
  const bool opens_pieces = backend.opens_pieces();
  const auto devices = static_cast<std::size_t>(backend.devices());
  const MemoryBudget budget = BudgetOf(flags, {.gpus = backend.name() == "cuda" ? backend.devices() : 0,
                                               .host_bytes = HostBytes(backend),
                                               .slot_bytes = backend.slots().front()->staging().size(),
                                               .receive_bytes = opens_pieces ? 2 * SlotBytes(backend) : 0,
                                               .shards = ShardCount(backend.slots().size() / devices)});
  if (absl::Status status = CheckBudget(budget, flags, ControlGroupLimit()); !status.ok()) return status;
  return budget;
}

absl::StatusOr<std::unique_ptr<MemorySocket>> OpenMemorySocket(const Flags& flags, Service& service) {
  if (flags.memory_socket.empty()) return nullptr;
  MemorySocketOptions options = {
      .path = flags.memory_socket,
      .users = {flags.memory_socket_users.begin(), flags.memory_socket_users.end()},
      .max_registered_bytes = flags.max_registered_bytes,
      .idle = absl::Seconds(flags.idle_timeout_seconds),
      .sealer_command = {kOwnExecutable, kSealMemoryFlag},
      .on_rejection =
          [](uid_t user, absl::string_view reason, absl::string_view message) {
            LogSampled(absl::StrCat("rejections of the memory socket: ", MemoryRejections::KindOf(reason)),
                       absl::StrCat("--memory_socket: rejected ",
                                    user == kNobody ? "an unknown user" : absl::StrCat("uid:", user), ": ",
                                    reason, ": ", message));
          },
  };
  if (service.backend.name() == "cuda") {
    const std::string device = service.backend.device();  // "cuda:0,cuda:1 NVIDIA H200"
    options.prober_command = {kOwnExecutable,
                              absl::StrCat(kProbeMemoryFlag, device.substr(0, device.find(' ')))};
  }
  return MemorySocket::Open(options, service.backend, service.memories);
}

absl::StatusOr<std::unique_ptr<Admin>> OpenAdmin(const Flags& flags) {
  if (flags.admin_listen.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<Admin>> admin = Admin::Open(flags.admin_listen);
  if (admin.ok()) {
    if (!(*admin)->is_local())
      Log(LogLevel::kWarning, absl::StrCat("--admin_listen=", flags.admin_listen,
                                           ": other machines may read metrics, peers and identities there"));
    return admin;
  }
  return absl::Status(admin.status().code(), absl::StrCat("--admin_listen: ", admin.status().message()));
}

AdminSources SourcesOf(const Flags& flags, Service& service, const RpcServer& server,
                       const MemorySocket* memory_socket, const TlsRenewal& tls_renewal,
                       const AllowFile& allow_file, const MemoryBudget& memory) {
  return {.service = &service,
          .memory_budget_bytes = memory.total(),
          .pool =
              [&server] {
                const SlotCounts counts = server.published_slots();
                return PoolGauges{.slots_free = counts.free,
                                  .slots_in_flight = counts.in_flight,
                                  .waiting_calls = counts.waiting};
              },
          .registrations =
              [memory_socket] {
                if (memory_socket == nullptr) return RegistrationGauges();
                const Registrar& registrar = memory_socket->registrar();
                return RegistrationGauges{.registrations = registrar.registrations(),
                                          .bytes = registrar.registered_bytes(),
                                          .max_bytes = registrar.max_bytes(),
                                          .rejections = memory_socket->rejections().counts()};
              },
          .connections = [&server] { return server.connections(); },
          .log_lines_dropped = LogLinesDropped,
          .grpc_errors = GrpcErrors,
          .reloads =
              [&flags, &tls_renewal, &allow_file] {
                std::vector<Reload> reloads;
                if (!flags.tls_cert.empty()) reloads.push_back(tls_renewal.last_reload());
                if (!flags.allow.empty()) reloads.push_back(allow_file.last_reload());
                return reloads;
              },
          .certificate_expiry = [&tls_renewal] { return tls_renewal.expiry(); },
          .authorities_expiry = [&tls_renewal] { return tls_renewal.authorities_expiry(); },
          .addresses = server.addresses(),
          .flags = flags.all};
}

RpcServerOptions OptionsOf(const Flags& flags, const std::optional<TlsKeys>& tls,
                           const MemoryBudget& memory) {
  return {.listen = flags.listen,
          .tls = tls,
          .allow_insecure = flags.allow_insecure,
          .max_connections = flags.max_connections,
          .other_descriptors = OtherDescriptors(flags),
          .received_bytes = memory.received(),
          .channelz = flags.channelz};
}

}  // namespace warpfold::server
