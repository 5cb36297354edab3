// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long a question on the memory socket waits, and who may end the wait. Internal.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/options.h"

namespace warpfold {

// Each question has a Patience of its own, and the time of the wait begins when that is made. Threads: the
// one that asks.
class Patience {
 public:
  // `options` must outlive it: their timeout, stop and keep_going count.
  explicit Patience(const CallOptions& options);

  // A question was sent: what came before is no silence of the server's.
  void Sent();

  // Waits until there is something to read, or the peer has hung up. Errors as those of Check.
  absl::Status AwaitAnswer(int socket);

  // DEADLINE_EXCEEDED after the timeout, CANCELLED if the call should not go on, and UNAVAILABLE if all this
  // has taken too long for a server that lives.
  absl::Status Check() const;

  // Until the next Check is due.
  absl::Duration Slice() const;

 private:
  const CallOptions& options_;
  const absl::Time deadline_;
  absl::Time silence_ends_;  // from then on the server counts as one that does not live
};

}  // namespace warpfold
