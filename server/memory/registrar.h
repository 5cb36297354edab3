// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Registers memory of other processes: maps memfds, opens GPU memory handles, and enforces the quota of each
// user.
//
// Memory is unregistered in parts, by ReleaseNext, on the registrar's thread. A shard that finishes the last
// reduction over it must not block while the driver unregisters it, and one client's release delays other
// clients by at most one part (docs/adr/0135). Limits are for what users have: what is being given back no
// longer counts for them. It still takes room until it is gone, and memory that needs this room waits for it.
// So does memory of a user that would have more than its share together with what it has given back, which
// its owner may keep from being gone (docs/adr/0105): others do not wait for that.
//
// Threads: one at a time, except for functions that say otherwise.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "server/core/references/memory_registry.h"
#include "server/memory/memfd.h"
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

  // Memory that a client registers, has registered, or has given back.
  struct Registration {
    uid_t user = 0;
    std::uint64_t byte_count = 0;
    std::variant<Memfd, kernels::ProcessMemory> source = {};  // until it is opened
    bool takes_room = false;                                  // it was opened
    Mapping mapping = {};                                     // of a memfd; `memory` is of its bytes
    std::shared_ptr<kernels::Memory> memory = nullptr;        // what is registered with the device
    std::shared_ptr<const NamedMemory> named = nullptr;       // null until all of it is registered
    std::string token = {};                                   // likewise empty
  };
  using Handle = std::list<Registration>::iterator;

  // `backend` and `registry` must outlive the registrar.
  Registrar(kernels::Backend& backend, MemoryRegistry& registry, Limits limits)
      : backend_(backend), registry_(registry), limits_(limits) {}
  // At destruction nothing may name or read the memory any more.
  ~Registrar() = default;

  // Whether memory could be registered if its memfd were sealed against holes, or the GPU's memory could be
  // read. INVALID_ARGUMENT (BAD_MEMORY), RESOURCE_EXHAUSTED (TOO_MUCH_MEMORY).
  absl::Status CheckHost(const Memfd& memfd, std::uint64_t byte_count, uid_t user);
  absl::Status CheckGpu(const kernels::ProcessMemory& memory, uid_t user);

  // Each checks once more, and then the memory counts. It is to be registered by RegisterNext. The memfd has
  // been sealed (memfd_sealer.h), the GPU's memory read (handle_prober.h). Errors as above.
  absl::StatusOr<Handle> BeginHost(Memfd memfd, std::uint64_t byte_count, uid_t user);
  absl::StatusOr<Handle> BeginGpu(const kernels::ProcessMemory& memory, uid_t user);

  // Opens the memory, or registers the next part of it; false once there is none left: then it has a token.
  // To be called only while CanGoOn, which is false where there is no room yet, since what was given back
  // before takes it. Errors are BAD_MEMORY and what the backend says; Unregister is to be called then, too.
  absl::StatusOr<bool> RegisterNext(Handle registration);
  bool CanGoOn(const Registration& registration) const;

  // Forgets the name; ReleaseNext gives the memory back once no reduction reads it.
  void Unregister(Handle registration);

  // Gives back a part of what was unregistered and is read no more. After how long to call it again, if
  // nothing is unregistered before.
  absl::Duration ReleaseNext();

  // These say how much memory of clients is mapped or opened, of how many registrations. Memory that was
  // given back counts until all of it is gone. From any thread.
  std::uint64_t registered_bytes() const { return registered_bytes_; }
  std::size_t registrations() const { return count_; }
  std::uint64_t max_bytes() const { return limits_.max_bytes; }

 private:
  // What a thread that serves nobody unmaps.
  struct Leaving {
    uid_t user;
    std::uint64_t byte_count;
    std::weak_ptr<const void> rest;
  };

  absl::Status CheckRoom(std::uint64_t byte_count, uid_t user);
  // Whether an eighth of `most` would be left, or the user would have half of it at most.
  bool IsFair(std::uint64_t most, std::uint64_t left, std::uint64_t of_user) const;
  struct Taken {
    std::uint64_t bytes = 0;
    std::size_t count = 0;
    void Add(std::uint64_t byte_count) {
      bytes += byte_count;
      ++count;
    }
  };
  // What takes room, of each user who has given back what is not gone yet; of none where one user has all.
  std::map<uid_t, Taken> LeavingOfUsers() const;
  absl::Status Open(Registration& registration);
  // Moves what was unregistered and is read no more to releases_.
  void CollectUnread();
  // Whether there is more of it to give back.
  bool ReleasePart(Registration& registration);
  void Forget(std::uint64_t byte_count);

  kernels::Backend& backend_;
  MemoryRegistry& registry_;
  const Limits limits_;
  std::atomic<std::uint64_t> registered_bytes_ = 0;  // that take room
  std::atomic<std::size_t> count_ = 0;
  std::list<Registration> registrations_;
  std::list<Registration> given_back_;  // some reduction may read it yet
  std::list<Registration> releases_;    // nobody reads it; the first is being given back
  std::list<Leaving> leaving_;
};

}  // namespace warpfold::server
