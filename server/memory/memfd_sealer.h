// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Seals memfds of other processes against holes, in processes of its own. A seal takes the kernel's lock of
// the memfd, and so does everybody who writes to it or allocates its bytes: their write may come from memory
// that never comes (FUSE, userfaultfd), and then the seal never ends either. A process that waits for that
// lock cannot even be killed, so it must be one that nobody needs (docs/adr/0128). Each user has processes of
// its own, which seal one memfd after the other.
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

// A memfd, and what becomes of it. Nobody can punch holes into one that is sealed any more, nor allocate
// bytes beyond its end, where they would make up for holes in a count of its blocks; and there are none.
// Mappings that clients have stay writable.
struct Sealing {
  Memfd memfd;     // who wants the result may take it
  uid_t user = 0;  // whose it is
  absl::Time deadline;
  // Nothing while it goes on. OK; INVALID_ARGUMENT (BAD_MEMORY) where the memfd takes no seals, or not by the
  // deadline; UNAVAILABLE (NO_PROBER) where there is no process that does it, or where it has ended.
  std::optional<absl::Status> result = std::nullopt;
};

class MemfdSealer {
 public:
  // More memfds of a user wait. Those of a user whose memfds hang are refused after `patience`. A process
  // ends when it has had nothing to do for kLongestIdle.
  static constexpr std::size_t kProcessesOfOneUser = 4;
  static constexpr absl::Duration kLongestIdle = absl::Seconds(10);

  // `command` is an executable and its arguments; it must call ServeSealing.
  MemfdSealer(std::vector<std::string> command, absl::Duration patience)
      : command_(std::move(command)), patience_(patience) {}
  MemfdSealer(const MemfdSealer&) = delete;
  MemfdSealer& operator=(const MemfdSealer&) = delete;
  // Ends its processes, and waits for none that may hang.
  ~MemfdSealer();

  // Begins to seal; Advance tells of the end. Who lets go of it before does not want it any more.
  std::shared_ptr<Sealing> Start(Memfd memfd, uid_t user, absl::Time now);

  // Sets the results that there are, and has the next memfds sealed. Does not block. To be called when what
  // Watch adds is readable, and at the deadline. Start does it, too, so that it may set results of others.
  void Advance(absl::Time now);
  absl::Time deadline(absl::Time now) const;
  // Adds what to poll.
  void Watch(std::vector<pollfd>* watched) const;

 private:
  struct Sealer {
    uid_t user;
    ChildProcess process;
    std::shared_ptr<Sealing> work = nullptr;  // null: it is idle
    absl::Time idle_since = absl::InfinitePast();
    bool is_given_up = false;  // it is killed, and not gone yet
    bool is_idle() const { return work == nullptr && !is_given_up; }
  };

  void TakeResult(Sealer& sealer, absl::Time now);
  static void GiveUp(Sealer& sealer);
  // An idle process of the user's, made if there may be one more; null if there is none.
  Sealer* FindIdle(uid_t user, absl::Status* status);
  // False where it has to wait.
  bool Assign(const std::shared_ptr<Sealing>& sealing, absl::Time now);

  const std::vector<std::string> command_;
  const absl::Duration patience_;
  std::list<Sealer> sealers_;
  std::list<std::shared_ptr<Sealing>> waiting_;
};

// A process that was started to seal calls this. It seals memfds, which come by standard input, with `seal`,
// until nobody asks any more. `seal` returns 0, or an errno. Returns the exit code.
int ServeSealing(const std::function<int(int memfd)>& seal);

// This is `seal`, but in tests.
int SealAgainstHoles(int memfd);

}  // namespace warpfold::server
