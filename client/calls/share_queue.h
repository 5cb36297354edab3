// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which shares of an array are still to be sent, for the streams that send them. Internal.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// The part of an array that is still to be sent. Its workers take shares in array order, the next one when
// the last is sent, until all shares are done or one has failed for good.
//
// Threads: any; Take blocks.
class ShareQueue {
 public:
  ShareQueue(std::size_t shares, int workers);

  // The next share. Waits while other workers have all remaining shares, since they may put them back.
  // Returns nothing if there is no more to do.
  std::optional<std::size_t> Take();

  // Called by a worker whose last share has no response yet. Returns the next share, or nothing if there is
  // none at present, or after EndLookAhead.
  std::optional<std::size_t> TakeAhead();
  // A server had no place for a share that was taken ahead: no more are taken ahead.
  void EndLookAhead();

  // The outcome of a share that was taken:
  void Done(std::size_t share, v1::PartialState state);
  // ... it failed, and may be taken again.
  void PutBack(std::size_t share);
  // ... it failed in a way in which it will always fail.
  void Fail(const absl::Status& status);

  // Called by a worker that takes no more shares because its attempts failed with `status`. When the last
  // worker leaves, the array fails with that status.
  void Leave(const absl::Status& status);

  bool any_done() const;
  bool finished() const;

  // The states of all shares, in array order; or the first failure that was no cancellation. Call once, after
  // the workers.
  absl::StatusOr<std::vector<v1::PartialState>> States();

 private:
  std::size_t NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasShareLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !put_back_.empty() || cursor_ < states_.size();
  }
  bool FinishedLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !status_.ok() || done_ == states_.size();
  }

  mutable absl::Mutex mutex_;
  std::size_t cursor_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::size_t> put_back_ ABSL_GUARDED_BY(mutex_);
  std::size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool looks_ahead_ ABSL_GUARDED_BY(mutex_) = true;
  int workers_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PartialState> states_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace warpfold
