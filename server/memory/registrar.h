// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Takes memory of other processes into the registry: maps memfds, opens handles of GPU memory, counts bytes.
//
// What has been given back is destroyed by Bury, on the registrar's own thread: a shard that ends the last
// reduction of it must not wait for the device to forget it.
//
// Threads: one, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/core/memory_registry.h"
#include "server/memory/file_descriptor.h"
#include "server/memory/handle_prober.h"

namespace warpfold::server {

class Registrar {
 public:
  // `backend` and `registry` must outlive the registrar. `prober` reads memory of other processes' on the GPU
  // before the backend opens it; without one, nobody does.
  Registrar(kernels::Backend& backend, MemoryRegistry& registry, std::uint64_t max_bytes,
            std::unique_ptr<HandleProber> prober)
      : backend_(backend), registry_(registry), max_bytes_(max_bytes), prober_(std::move(prober)) {}
  // At destruction nothing may name or read the memory any more.
  ~Registrar() = default;

  // Each returns a token. INVALID_ARGUMENT (BAD_MEMORY), RESOURCE_EXHAUSTED (TOO_MUCH_MEMORY), and what the
  // prober and the backend say.
  absl::StatusOr<std::string> RegisterHost(const FileDescriptor& memfd, std::uint64_t byte_count);
  absl::StatusOr<std::string> RegisterGpu(const kernels::ProcessMemory& memory);

  // Forgets the name; the memory is buried once no reduction reads it.
  void Unregister(const std::string& token);

  // Destroys what was unregistered and is read no more. Whether some is left.
  bool Bury();

  // These say how many bytes clients have registered, in how many pieces of memory. Memory that was given
  // back counts until the last reduction that reads it has ended. From any thread.
  std::uint64_t registered_bytes() const { return registered_bytes_; }
  std::size_t registrations() const { return count_; }

 private:
  struct Registration {
    std::string token;
    std::shared_ptr<const NamedMemory> memory;
  };

  absl::Status CheckRoom(std::uint64_t byte_count);
  std::string Name(std::shared_ptr<const kernels::Memory> memory);

  kernels::Backend& backend_;
  MemoryRegistry& registry_;
  const std::uint64_t max_bytes_;
  const std::unique_ptr<HandleProber> prober_;  // may be null
  std::atomic<std::uint64_t> registered_bytes_ = 0;
  std::atomic<std::size_t> count_ = 0;
  std::vector<Registration> registrations_;
  std::vector<std::shared_ptr<const NamedMemory>> given_back_;
};

}  // namespace warpfold::server
