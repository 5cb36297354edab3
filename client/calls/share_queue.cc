// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/share_queue.h"

#include <algorithm>
#include <utility>

namespace warpfold {

ShareQueue::ShareQueue(std::size_t shares, int workers) : workers_(workers), states_(shares) {}

std::optional<std::size_t> ShareQueue::Take() {
  absl::MutexLock lock(&mutex_);
  const auto is_answer = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return FinishedLocked() || HasShareLocked();
  };
  mutex_.Await(absl::Condition(&is_answer));
  if (FinishedLocked()) return std::nullopt;
  return NextLocked();
}

std::optional<std::size_t> ShareQueue::TakeAhead() {
  absl::MutexLock lock(&mutex_);
  if (!looks_ahead_ || FinishedLocked() || !HasShareLocked()) return std::nullopt;
  return NextLocked();
}

std::size_t ShareQueue::NextLocked() {
  if (put_back_.empty()) return cursor_++;
  const auto first = std::min_element(put_back_.begin(), put_back_.end());
  const std::size_t share = *first;
  put_back_.erase(first);
  return share;
}

void ShareQueue::Done(std::size_t share, v1::PartialState state) {
  absl::MutexLock lock(&mutex_);
  states_[share] = std::move(state);
  ++done_;
}

void ShareQueue::PutBack(std::size_t share) {
  absl::MutexLock lock(&mutex_);
  put_back_.push_back(share);
}

void ShareQueue::EndLookAhead() {
  absl::MutexLock lock(&mutex_);
  looks_ahead_ = false;
}

void ShareQueue::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok() || absl::IsCancelled(status_)) status_ = status;
}

void ShareQueue::Leave(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (--workers_ == 0 && status_.ok()) status_ = status;
}

bool ShareQueue::any_done() const {
  absl::MutexLock lock(&mutex_);
  return done_ > 0;
}

bool ShareQueue::finished() const {
  absl::MutexLock lock(&mutex_);
  return FinishedLocked();
}

absl::StatusOr<std::vector<v1::PartialState>> ShareQueue::States() {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return status_;
  return std::move(states_);
}

}  // namespace warpfold
