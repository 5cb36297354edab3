// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Seals memfds of other processes against holes, in separate processes. A seal takes the kernel's lock of the
// memfd, and so does anyone who writes to it or allocates its bytes: such a write may read from memory that
// never becomes available (FUSE, userfaultfd), and then the seal never ends either. A process that waits for
// that lock cannot even be killed, so it must be one that nobody needs (docs/adr/0128). Each user has
// separate processes, which seal one memfd after the other.
//
// Threads: one.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/memory/child_process.h"
#include "server/memory/memfd.h"

namespace warpfold::server {

// A memfd, and the outcome of sealing it. Once it is sealed, nobody can punch holes into it any more, nor
// allocate bytes beyond its end, which would make up for holes in a count of its blocks; and there are none.
// Mappings that clients have stay writable.
struct Sealing {
  Memfd memfd;     // who wants the result may take it
  uid_t user = 0;  // whose it is
  absl::Time deadline;
  // Nothing while it is in progress. OK; INVALID_ARGUMENT (BAD_MEMORY) if the memfd cannot be sealed, or not
  // by the deadline; UNAVAILABLE (NO_PROBER) if there is no process that does it, or if it has ended.
  std::optional<absl::Status> result = std::nullopt;
};

class MemfdSealer {
 public:
  // Further memfds of a user wait. If a user's memfds hang, they are rejected after `patience`. A process
  // ends when it has had nothing to do for kLongestIdle.
  static constexpr std::size_t kProcessesOfOneUser = 4;
  static constexpr absl::Duration kLongestIdle = absl::Seconds(10);

  // `command` is an executable and its arguments; it must call ServeSealing.
  MemfdSealer(std::vector<std::string> command, absl::Duration patience)
      : command_(std::move(command)), patience_(patience) {}
  MemfdSealer(const MemfdSealer&) = delete;
  MemfdSealer& operator=(const MemfdSealer&) = delete;
  // Ends its processes, without waiting for any that may hang.
  ~MemfdSealer();

  // Begins to seal; Advance reports the end. A caller that releases the result earlier no longer wants it.
  std::shared_ptr<Sealing> Start(Memfd memfd, uid_t user, absl::Time now);

  // Sets the results that are ready, and has the next memfds sealed. Does not block. Call this when a
  // descriptor that Watch adds is readable, and at the deadline.
  void Advance(absl::Time now);
  absl::Time deadline(absl::Time now) const;
  // Adds the descriptors to poll.
  void Watch(std::vector<pollfd>* watched) const;

 private:
  struct Sealer {
    uid_t user;
    ChildProcess process;
    std::shared_ptr<Sealing> work = nullptr;  // null: it is idle
    absl::Time idle_since = absl::InfinitePast();
    bool is_given_up = false;  // it was killed, but has not ended yet
    bool is_idle() const { return work == nullptr && !is_given_up; }
  };

  // `may_be_readable`: its process may have sent something, or ended.
  void TakeResult(Sealer& sealer, bool may_be_readable, absl::Time now);
  static void GiveUp(Sealer& sealer);
  // An idle process for the user, made if there may be one more; null if there is none.
  Sealer* FindIdle(uid_t user, absl::Status* status);
  // False if it has to wait.
  bool Assign(const std::shared_ptr<Sealing>& sealing, absl::Time now);

  const std::vector<std::string> command_;
  const absl::Duration patience_;
  std::list<Sealer> sealers_;
  std::list<std::shared_ptr<Sealing>> waiting_;
};

// A process that was started to seal calls this. It seals memfds, which come over standard input, with
// `seal`, until the other end is closed. `seal` returns 0, or an errno. Returns the exit code.
int ServeSealing(const std::function<int(int memfd)>& seal);

// This is the value of `seal`, except in tests.
int SealAgainstHoles(int memfd);

}  // namespace warpfold::server
