// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/refusals.h"

namespace warpfold {

void Refusals::Refused(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  asks_until_ = now + kAsksAfterRefusal;
}

void Refusals::Admitted() {
  absl::MutexLock lock(&mutex_);
  answers_ = true;
}

void Refusals::HeardNothing(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  // A server that has answered before is silent because it is overloaded; stopping to ask now would add to
  // its load.
  if (!answers_) not_asked_until_ = now + kNotAskedAfterSilence;
}

void Refusals::TookPlace() {
  absl::MutexLock lock(&mutex_);
  ++places_;
}

void Refusals::LeftPlace() {
  absl::MutexLock lock(&mutex_);
  --places_;
}

bool Refusals::HasPlaces() const {
  absl::MutexLock lock(&mutex_);
  return places_ > 0;
}

bool Refusals::AsksFirst(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return now < asks_until_ && now >= not_asked_until_;
}

bool Refusals::MayAsk(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return now >= not_asked_until_;
}

}  // namespace warpfold
