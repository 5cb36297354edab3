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

  // A request was sent: the time before does not count as silence of the server.
  void Sent();

  // Waits until there is something to read, or the peer has closed the connection. Errors as those of Check.
  absl::Status AwaitAnswer(int socket);

  // DEADLINE_EXCEEDED after the timeout, CANCELLED if the call should not go on, and UNAVAILABLE if all this
  // has taken too long for a live server.
  absl::Status Check() const;

  // Until the next Check is due.
  absl::Duration Slice() const;

 private:
  const CallOptions& options_;
  const absl::Time deadline_;
  absl::Time silence_ends_;  // from then on the server counts as dead
};

}  // namespace warpfold
