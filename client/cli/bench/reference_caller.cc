// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "client/cli/bench/caller.h"
#include "client/cli/bench/gpu_memory.h"
#include "client/client.h"
#include "client/shared_memory.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

// Objects that must live as long as calls refer to them. The memory is destroyed before the client, and the
// registration before the memory.
struct Elsewhere {
  std::unique_ptr<Client> client;
  std::optional<GpuMemory> gpu;
  std::optional<RegisteredMemory> registered;
  std::optional<ResidentArray> resident;
  std::string token;
  std::optional<SharedMemory> shared_results;
  std::optional<GpuMemory> gpu_results;
  std::optional<RegisteredMemory> registered_results;
  std::optional<ResultsReference> results;
  absl::Duration handed_over;  // what that took

  ~Elsewhere() {
    if (resident.has_value()) client->DeleteArray(resident->token, {.timeout = kCallTimeout}).IgnoreError();
  }
};

// A sealed copy of the memory in a memfd; -1 if the system has no memfds.
int MemfdOf(std::span<const std::byte> memory) {
  const int memfd = memfd_create("warpfold bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  absl::Cleanup close_it = [memfd] { close(memfd); };
  const auto bytes = static_cast<off_t>(memory.size());
  if (memfd < 0 || posix_fallocate(memfd, 0, bytes) != 0) return -1;
  void* const copy = mmap(nullptr, memory.size(), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (copy == MAP_FAILED) return -1;
  std::memcpy(copy, memory.data(), memory.size());
  munmap(copy, memory.size());
  if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) return -1;
  std::move(close_it).Cancel();
  return memfd;
}

absl::Status Share(const MemoryConnection& connection, std::span<const std::byte> memory, Elsewhere& there) {
  const int memfd = MemfdOf(memory);
  if (memfd < 0) return absl::ResourceExhaustedError("there is no memory to share");
  const absl::Time begin = SteadyNow();
  absl::StatusOr<RegisteredMemory> registered = connection.Register(memfd, memory.size());
  there.handed_over = SteadyNow() - begin;
  close(memfd);
  if (!registered.ok()) return registered.status();
  there.registered.emplace(*std::move(registered));
  there.token = there.registered->token();
  return absl::OkStatus();
}

absl::Status HandOver(const MemoryConnection& connection, std::span<const std::byte> memory,
                      Elsewhere& there) {
  absl::StatusOr<GpuMemory> gpu = GpuMemory::CopyOf(memory);
  if (!gpu.ok()) return gpu.status();
  there.gpu.emplace(*std::move(gpu));
  const absl::Time begin = SteadyNow();
  absl::StatusOr<RegisteredMemory> registered = connection.RegisterGpu(there.gpu->range());
  there.handed_over = SteadyNow() - begin;
  if (!registered.ok()) return registered.status();
  there.registered.emplace(*std::move(registered));
  there.token = there.registered->token();
  return absl::OkStatus();
}

absl::Status Put(ElementType type, std::span<const std::byte> memory, Elsewhere& there) {
  const absl::Time begin = SteadyNow();
  absl::StatusOr<ResidentArray> resident = there.client->PutBytes(
      type, std::nullopt, memory, {.owner = "warpfold bench"}, {.timeout = kCallTimeout});
  there.handed_over = SteadyNow() - begin;
  if (!resident.ok()) return resident.status();
  there.resident = *std::move(resident);
  there.token = there.resident->token;
  return absl::OkStatus();
}

absl::Status PlaceOnGpu(const MemoryConnection& connection, std::uint64_t bytes, Elsewhere& there) {
  absl::StatusOr<GpuMemory> gpu = GpuMemory::Allocate(bytes);
  if (!gpu.ok()) return gpu.status();
  there.gpu_results.emplace(*std::move(gpu));
  const absl::Time begin = SteadyNow();
  absl::StatusOr<RegisteredMemory> registered =
      connection.RegisterGpu(there.gpu_results->range(), MemoryAccess::kReadWrite);
  there.handed_over += SteadyNow() - begin;
  if (!registered.ok()) return registered.status();
  there.registered_results.emplace(*std::move(registered));
  there.results = ResultsReference{.token = there.registered_results->token()};
  return absl::OkStatus();
}

// Makes room for the results of one call's array.
absl::Status PlaceResults(const MemoryConnection& connection, const BenchFlags& flags, Elsewhere& there) {
  const absl::StatusOr<std::vector<SegmentColumn>> columns = SegmentColumnsOf(SpecOf(flags), flags.type);
  if (!columns.ok()) return columns.status();
  const std::uint64_t segments = flags.bytes / ElementTypeBytes(flags.type) / flags.segment_length;
  const std::uint64_t bytes = segments * columns->size() * sizeof(std::uint64_t);
  if (flags.results == BenchResults::kGpu) return PlaceOnGpu(connection, bytes, there);
  const absl::Time begin = SteadyNow();
  absl::StatusOr<SharedMemory> shared = connection.Allocate(bytes, MemoryAccess::kReadWrite);
  there.handed_over += SteadyNow() - begin;
  if (!shared.ok()) return shared.status();
  there.shared_results.emplace(*std::move(shared));
  there.results = ResultsReference{.token = there.shared_results->token()};
  return absl::OkStatus();
}

}  // namespace

bool NeedsMemoryConnection(const BenchFlags& flags) {
  return flags.source == BenchSource::kMemory || flags.source == BenchSource::kIpc ||
         flags.results != BenchResults::kSent;
}

absl::StatusOr<Caller> MakeReferenceCaller(const Server& server, const BenchFlags& flags,
                                           std::span<const std::byte> memory,
                                           const MemoryConnection* connection, absl::Duration* handed_over) {
  auto there = std::make_shared<Elsewhere>();
  there->client = std::make_unique<Client>(
      server.target(), ClientOptions{.connections = 1, .credentials = server.credentials});
  absl::Status status;
  if (flags.source == BenchSource::kMemory) status = Share(*connection, memory, *there);
  if (flags.source == BenchSource::kIpc) status = HandOver(*connection, memory, *there);
  if (flags.source == BenchSource::kResident) status = Put(flags.type, memory, *there);
  if (status.ok() && flags.results != BenchResults::kSent) {
    status = PlaceResults(*connection, flags, *there);
  }
  if (!status.ok()) return status;
  *handed_over += there->handed_over;
  const Spec spec = SpecOf(flags);
  const std::uint64_t element_bytes = ElementTypeBytes(flags.type);
  const SegmentCut cut = {.length = flags.segment_length, .results = there->results};
  return [there, spec, type = flags.type, cut, element_bytes,
          begin = memory.data()](std::span<const std::byte> array) {
    const ArrayReference reference = {.token = there->token,
                                      .byte_offset = static_cast<std::uint64_t>(array.data() - begin),
                                      .element_count = array.size() / element_bytes};
    if (cut.length > 0) {
      return ReductionOf(there->client->ReduceSegmentsReference(
          spec, type, reference, cut, [](const SegmentResults&) {}, {.timeout = kCallTimeout}));
    }
    return there->client->ReduceReference(spec, type, reference, {.timeout = kCallTimeout});
  };
}

}  // namespace warpfold::cli
