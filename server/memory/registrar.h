// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Takes memory of other processes into the registry: maps memfds, opens handles of GPU memory, and counts
// bytes of each user.
//
// What has been given back is destroyed by Bury, on the registrar's own thread: a shard that ends the last
// reduction of it must not wait for the device to forget it.
//
// Threads: one, but for what says otherwise.
#pragma once

#include <sys/types.h>

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
#include "server/core/references/memory_registry.h"
#include "server/memory/handle_prober.h"
#include "server/net/file_descriptor.h"

namespace warpfold::server {

class Registrar {
 public:
  struct Limits {
    std::uint64_t max_bytes = 0;
    // Several users may register: one of them does not get the last eighth of the bytes and the registrations
    // while it has more than half of them.
    bool has_several_users = false;
  };

  // `backend` and `registry` must outlive the registrar. `prober` reads memory of other processes on the GPU
  // before the backend opens it; without one, nobody does.
  Registrar(kernels::Backend& backend, MemoryRegistry& registry, Limits limits,
            std::unique_ptr<HandleProber> prober)
      : backend_(backend), registry_(registry), limits_(limits), prober_(std::move(prober)) {}
  // At destruction nothing may name or read the memory any more.
  ~Registrar() = default;

  // Whether a memfd can be registered once it is sealed against holes. INVALID_ARGUMENT (BAD_MEMORY),
  // RESOURCE_EXHAUSTED (TOO_MUCH_MEMORY).
  absl::Status CheckHost(const FileDescriptor& memfd, std::uint64_t byte_count, uid_t user);

  // Each returns a token. INVALID_ARGUMENT (BAD_MEMORY), RESOURCE_EXHAUSTED (TOO_MUCH_MEMORY), and what the
  // prober and the backend say.
  //
  // Memory of the host is mapped and counts, and nothing else: RegisterNext is to be called before the token
  // is told to anybody. The memfd has been sealed (memfd_sealer.h).
  absl::StatusOr<std::string> BeginHost(const FileDescriptor& memfd, std::uint64_t byte_count, uid_t user);
  absl::StatusOr<std::string> RegisterGpu(const kernels::ProcessMemory& memory, uid_t user);

  // Registers the next part of what has the token from BeginHost; false once there is none left.
  absl::StatusOr<bool> RegisterNext(const std::string& token);

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
    uid_t user;
    std::string token;
    std::shared_ptr<kernels::Memory> unfinished;  // what RegisterNext goes on with; a part of `memory`
    std::shared_ptr<const NamedMemory> memory;
  };

  absl::Status CheckRoom(std::uint64_t byte_count, uid_t user);
  // Whether an eighth of `most` would be left, or the user would have half of it at most.
  bool IsFair(std::uint64_t most, std::uint64_t left, std::uint64_t of_user) const;
  std::string Name(std::shared_ptr<const kernels::Memory> memory, uid_t user);
  std::vector<Registration>::iterator Find(const std::string& token);

  kernels::Backend& backend_;
  MemoryRegistry& registry_;
  const Limits limits_;
  const std::unique_ptr<HandleProber> prober_;  // may be null
  std::atomic<std::uint64_t> registered_bytes_ = 0;
  std::atomic<std::size_t> count_ = 0;
  std::vector<Registration> registrations_;
  std::vector<Registration> given_back_;
};

}  // namespace warpfold::server
