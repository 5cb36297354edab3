// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Registers memory of other processes: maps memfds, opens GPU memory handles, and enforces the quota of each
// user.
//
// Memory is unregistered in parts, by ReleaseNext, on the registrar's thread. A shard that finishes the last
// reduction over it must not block while the driver unregisters it, and one client's release delays other
// clients by at most one part (docs/adr/0135). Limits apply to what users have: memory that is being given
// back no longer counts for them. It still takes room until it is freed, and memory that needs this room
// waits for it. So does memory of a user that would exceed its share together with what it has given back,
// since the owner may keep that from being freed (docs/adr/0105): others do not wait for it.
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
    // Whether several users may register: then no user gets the last eighth of the bytes and of the
    // registrations while it has more than half of them.
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
  // At destruction nothing may refer to or read the memory any more.
  ~Registrar() = default;

  // Whether memory could be registered if its memfd were sealed against holes, or the GPU's memory could be
  // read. INVALID_ARGUMENT (BAD_MEMORY), RESOURCE_EXHAUSTED (TOO_MUCH_MEMORY).
  absl::Status CheckHost(const Memfd& memfd, std::uint64_t byte_count, uid_t user);
  absl::Status CheckGpu(const kernels::ProcessMemory& memory, uid_t user);

  // Each checks once more, and then the memory counts. RegisterNext then registers it. The memfd has been
  // sealed (memfd_sealer.h), the GPU's memory read (handle_prober.h). Errors as above. If clients may have
  // results written to the memfd, `writable` is its mapping: once it is sealed, nobody can map it for that.
  absl::StatusOr<Handle> BeginHost(Memfd memfd, std::uint64_t byte_count, uid_t user, Mapping writable = {});
  absl::StatusOr<Handle> BeginGpu(const kernels::ProcessMemory& memory, uid_t user);

  // Opens the memory, or registers the next part of it; false once no part is left: then it has a token. Call
  // this only while CanGoOn, which is false if there is no room yet because memory that was given back before
  // still takes it. Errors are BAD_MEMORY and those of the backend; after an error, Unregister must be
  // called, too.
  absl::StatusOr<bool> RegisterNext(Handle registration);
  bool CanGoOn(const Registration& registration) const;

  // Forgets the name; ReleaseNext gives the memory back once no reduction reads it.
  void Unregister(Handle registration);

  // Gives back a part of the memory that was unregistered and is no longer read. Returns after how long to
  // call it again, if nothing is unregistered before.
  absl::Duration ReleaseNext();

  // These say how much memory of clients is mapped or opened, in how many registrations. Memory that was
  // given back counts until all of it is freed. From any thread.
  std::uint64_t registered_bytes() const { return registered_bytes_; }
  std::size_t registrations() const { return count_; }
  std::uint64_t max_bytes() const { return limits_.max_bytes; }

 private:
  // A mapping, which a thread that serves nobody unmaps.
  struct Leaving {
    uid_t user;
    std::uint64_t byte_count;
    std::weak_ptr<const void> rest;
  };

  absl::Status CheckRoom(std::uint64_t byte_count, uid_t user);
  // Whether an eighth of `most` would be left, or the user would have half of it at most.
  bool IsFair(std::uint64_t most, std::uint64_t left, std::uint64_t of_user) const;
  // What a user's memory takes of the room.
  struct Taken {
    std::uint64_t bytes = 0;
    std::size_t count = 0;
    std::size_t leaving = 0;  // of these registrations: in releases_ or leaving_
  };
  // Whether a registration of the user would exceed its share only together with what the user gives back.
  bool WaitsForItsOwn(const Registration& waiting) const;
  Handle BeginWaiting(Registration registration);
  absl::Status Open(Handle registration);
  // Moves memory that was unregistered and is no longer read to releases_.
  void CollectUnread();
  // Whether there is more of it to give back.
  bool ReleasePart(Registration& registration);
  // Memory that was leaving has been freed.
  void Forget(std::uint64_t byte_count, uid_t user);

  kernels::Backend& backend_;
  MemoryRegistry& registry_;
  const Limits limits_;
  std::atomic<std::uint64_t> registered_bytes_ = 0;  // that take room
  std::atomic<std::size_t> count_ = 0;
  std::map<uid_t, Taken> taken_;     // by user, of those who have any
  std::list<Registration> waiting_;  // take no room yet; at most one of each connection
  std::uint64_t waiting_bytes_ = 0;  // of all these
  std::list<Registration> registrations_;
  std::list<Registration> given_back_;  // some reduction may read it yet
  std::list<Registration> releases_;    // nobody reads it; the first is being given back
  std::list<Leaving> leaving_;
};

}  // namespace warpfold::server
