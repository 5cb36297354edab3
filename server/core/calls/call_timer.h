// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a call has taken too long: the client's deadline, and the service's limits on idleness, slowness and
// duration.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/limits.h"

namespace warpfold::server {

class CallTimer {
 public:
  CallTimer(absl::Time start, absl::Time deadline, CallLimits limits);

  // The idle limit counts from the client's last progress: the start of the call, or a message that carried
  // something (a chunk without bytes does not). The time that the server takes, between ClientCame and the
  // next AwaitClient, does not count against the client.
  void AwaitClient(absl::Time now);
  void ClientCame(absl::Time now);
  // A client must also keep a minimum rate: within twice the idle limit it must send another
  // limits.pace_bytes. The window begins anew each time it has. `bytes` is how much of the array has arrived
  // by then: `when` is in the past for a message that has waited for its turn.
  void Progress(absl::Time when, std::uint64_t bytes);
  // The call has reserved `bytes` (for a kept array) until all of them have arrived. In each window at
  // least a sixteenth of them must arrive, if that is more than limits.pace_bytes.
  void Reserve(std::uint64_t bytes);

  // DEADLINE_EXCEEDED (DEADLINE, IDLE, RATE or DURATION) once the call has outlived a limit, else OK. The
  // client may be idle for `patience`, if that is less than limits.idle; the error then names no limit.
  absl::Status Overdue(absl::Time now, absl::Duration patience = absl::InfiniteDuration()) const;

  // Whether the client has sent anything yet.
  bool has_come() const { return has_come_; }

  absl::Time start() const { return start_; }

 private:
  const absl::Time start_;
  const absl::Time deadline_;
  const CallLimits limits_;
  std::uint64_t pace_bytes_;  // that are to come in a window
  bool awaiting_client_ = false;
  bool has_come_ = false;
  absl::Time progress_;           // the last, moved on by what the server has taken since
  absl::Time pace_begin_;         // of the window for the next pace_bytes, moved on likewise
  std::uint64_t bytes_then_ = 0;  // that had come by then
  absl::Time client_came_;        // while the client is not awaited: since when
};

}  // namespace warpfold::server
