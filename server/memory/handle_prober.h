// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds out whether the memory behind a CUDA IPC handle can be read, in a separate process. A handle that was
// tampered with may open and then cause a fault when it is read; CUDA ends all work of the process to which
// that happens, and only of that process. So another process reads first (docs/adr/0059). There is one such
// process, since each takes half a GiB of the GPU's memory, and users take turns with it (docs/adr/0135).
//
// Threads: one.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/memory.h"
#include "server/memory/child_process.h"
#include "server/memory/user_turns.h"

namespace warpfold::server {

// Memory of another process, and whether it can be read.
struct Probing {
  kernels::ProcessMemory memory;
  uid_t user = 0;  // whose it is
  // Nothing while it is in progress. OK if all bytes could be read, now or when the same handle was probed
  // before. INVALID_ARGUMENT (BAD_MEMORY) if not; UNAVAILABLE (NO_PROBER) if there is no process that does
  // it; RESOURCE_EXHAUSTED if the device has no room for it.
  std::optional<absl::Status> result = std::nullopt;
};

class HandleProber {
 public:
  // `command` is an executable and its arguments; it must call ServeProbes. It is started by the first probe,
  // and again after it has ended. An answer that takes longer than `patience` counts as no answer, and so
  // does the end of a process that was killed.
  explicit HandleProber(std::vector<std::string> command, absl::Duration patience = absl::Seconds(10))
      : process_(std::move(command)), patience_(patience) {}
  HandleProber(const HandleProber&) = delete;
  HandleProber& operator=(const HandleProber&) = delete;
  // Ends its process, without waiting for one that may hang.
  ~HandleProber();

  // Begins to probe; Advance reports the end, or the result is ready at once. A caller that releases the
  // result earlier no longer wants it.
  std::shared_ptr<const Probing> Start(const kernels::ProcessMemory& memory, uid_t user, absl::Time now);

  // Sets the results that are ready, and has the next memory probed: users in turn, and the requests of one
  // user in order. Does not block. Call this when the descriptor that Watch adds is readable, and at the
  // deadline. Start does it, too, so that it may set results of others.
  void Advance(absl::Time now);
  absl::Time deadline(absl::Time now) const;
  // Adds the descriptor to poll.
  void Watch(std::vector<pollfd>* watched) const;

 private:
  void TakeAnswer(absl::Time now);
  // The process can no longer be used.
  void EndProcess(absl::Time now);
  void AskNext(absl::Time now);
  void Ask(std::shared_ptr<Probing> probing, absl::Time now);
  // `refusal` is what there is to say of the memory if the process has not been asked about others before.
  // Otherwise it may have ended for another reason: then the memory is probed again.
  void AskAgainOrRefuse(absl::Status refusal, absl::Time now);
  bool IsKnown(const kernels::ProcessMemory& memory) const;

  ChildProcess process_;
  const absl::Duration patience_;
  std::list<std::shared_ptr<Probing>> waiting_;
  UserTurns turns_;
  std::shared_ptr<Probing> asked_;            // the memory that the process reads; null: none
  bool is_first_ = false;                     // nothing was asked of the process before that
  bool has_begun_ = false;                    // the process has said that it has started
  std::shared_ptr<Probing> again_;            // the first request to the next process; may be null
  bool is_ending_ = false;                    // the process was killed, and has not ended yet
  absl::Time deadline_;                       // of the answer, or of the end
  std::deque<kernels::ProcessMemory> known_;  // what could be read, the latest last
};

// The work of the process: answers probes, which come over standard input, with the result of `probe`, until
// nobody asks any more. Returns its exit code. UNAVAILABLE means that this process can no longer use CUDA: it
// is ended.
int ServeProbes(const std::function<absl::Status(const kernels::ProcessMemory&)>& probe);

}  // namespace warpfold::server
