// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/target_load.h"

namespace warpfold {

void TargetLoad::Refused(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  asks_until_ = now + kAsksAfterRefusal;
}

void TargetLoad::Admitted() {
  absl::MutexLock lock(&mutex_);
  answers_ = true;
}

void TargetLoad::HeardNothing(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  // If a server has responded before, it is silent because it is overloaded; if calls stopped asking now,
  // that would add to its load.
  if (!answers_) not_asked_until_ = now + kNotAskedAfterSilence;
}

void TargetLoad::TookPlace() {
  absl::MutexLock lock(&mutex_);
  ++places_;
}

void TargetLoad::LeftPlace() {
  absl::MutexLock lock(&mutex_);
  --places_;
}

bool TargetLoad::HasPlaces() const {
  absl::MutexLock lock(&mutex_);
  return places_ > 0;
}

bool TargetLoad::AsksFirst(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return now < asks_until_ && now >= not_asked_until_;
}

bool TargetLoad::MayAsk(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return now >= not_asked_until_;
}

}  // namespace warpfold
