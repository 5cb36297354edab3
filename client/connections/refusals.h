// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the calls to a target learn from each other, and from those that it has refused. A refused call may
// have sent a window of its array, up to 4 MiB, before it hears of the refusal, and a full server reads all
// of that. So for some seconds after a refusal the calls that send arrays ask first: they send their header,
// and their array once the server says that they are admitted (metadata.h). Calls whose array cannot be sent
// again always do. Internal.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpfold {

// How long calls ask first after a refusal. An admission does not end it: who was refused among many callers
// will be again. It costs each of these calls a round trip.
inline constexpr absl::Duration kAsksAfterRefusal = absl::Seconds(5);
// How long a call waits to hear of its admission. A server that does not know the question says nothing, and
// keeps a place for the call meanwhile.
inline constexpr absl::Duration kLongestWaitForAdmission = absl::Seconds(1);
// How long a target that has said nothing is not asked.
inline constexpr absl::Duration kNotAskedAfterSilence = absl::Minutes(1);

// Threads: any. All times are of one clock, the caller's.
class Refusals {
 public:
  // What has happened to a call: it was refused by a full server, ...
  void Refused(absl::Time now);
  // ... it asked, and heard that it is admitted, ...
  void Admitted();
  // ... or it asked, and heard nothing in kLongestWaitForAdmission.
  void HeardNothing(absl::Time now);

  // A call that sends an array has a place at the target: it was admitted, or did not ask and may have one.
  // Writers do not count, since they end when their callers like. Then: it is over.
  void TookPlace();
  void LeftPlace();
  // Whether there are such calls: a full server then has places again before long, for this client, too.
  bool HasPlaces() const;

  // Whether a call that begins at `now` is to ask first.
  bool AsksFirst(absl::Time now) const;
  // Whether it would have an answer.
  bool MayAsk(absl::Time now) const;

 private:
  mutable absl::Mutex mutex_;
  absl::Time asks_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time not_asked_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool answers_ ABSL_GUARDED_BY(mutex_) = false;  // it has said so of a call
  int places_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace warpfold
