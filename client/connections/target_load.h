// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Overload state of one target, shared by all calls to it. A rejected call may already have sent up to 4 MiB
// (one flow-control window) of its array, which the overloaded server must read and discard. For some seconds
// after a rejection, therefore, calls ask for admission first, as with HTTP's "Expect: 100-continue": they
// send their header, and send the array only once the server has admitted them (metadata.h). Calls whose
// array cannot be sent again always do. Internal.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpfold {

// How long calls ask first after a rejection. An admission does not end this: a client that was rejected
// among many callers will be rejected again. It costs each of these calls a round trip.
inline constexpr absl::Duration kAsksAfterRefusal = absl::Seconds(5);
// How long a call waits to learn of its admission. A server that does not know the question sends nothing,
// and keeps a place for the call meanwhile.
inline constexpr absl::Duration kLongestWaitForAdmission = absl::Seconds(1);
// How long a target is not asked again after it has not answered the question.
inline constexpr absl::Duration kNotAskedAfterSilence = absl::Minutes(1);

// Threads: any. All times are of one clock, the caller's.
class TargetLoad {
 public:
  // The outcome of a call, whether or not it asked: an overloaded server rejected it.
  void Refused(absl::Time now);
  // A call that had asked for admission was admitted.
  void Admitted();
  // A call that had asked got no response within kLongestWaitForAdmission.
  void HeardNothing(absl::Time now);

  // A call that sends an array has a place at the target: it was admitted, or did not ask and may have one.
  // Writers do not count, because their duration depends on the caller. LeftPlace: the call has ended.
  void TookPlace();
  void LeftPlace();
  // Whether there are such calls: a full server then has places again before long, for this client, too.
  bool HasPlaces() const;

  // Whether a call that begins at `now` should ask first.
  bool AsksFirst(absl::Time now) const;
  // Whether it would get a response.
  bool MayAsk(absl::Time now) const;

 private:
  mutable absl::Mutex mutex_;
  absl::Time asks_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time not_asked_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool answers_ ABSL_GUARDED_BY(mutex_) = false;  // the target has confirmed an admission before
  int places_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace warpfold
