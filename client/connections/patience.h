// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long a request on the memory socket waits, and what may end the wait. Internal.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/options.h"

namespace warpfold {

// Each request has its own Patience, and the time of the wait begins when that is made. Threads: the one that
// makes the request.
class Patience {
 public:
  // `options` must outlive it: their timeout, stop and keep_going are used.
  explicit Patience(const CallOptions& options);

  // To be called when a request was sent. The time before that does not count as silence of the server.
  void Sent();

  // Waits until there is something to read, or the peer has closed the connection. Errors as those of Check.
  absl::Status AwaitAnswer(int socket);

  // DEADLINE_EXCEEDED after the timeout, CANCELLED if the call should not go on, and UNAVAILABLE if the
  // server has been silent for so long that it counts as dead.
  absl::Status Check() const;

  // The time until the next Check is due.
  absl::Duration Slice() const;

 private:
  const CallOptions& options_;
  const absl::Time deadline_;
  absl::Time silence_ends_;  // from then on the server counts as dead
};

}  // namespace warpfold
