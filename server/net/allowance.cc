// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/allowance.h"

#include <algorithm>

namespace warpfold::server {

bool Allowance::Spend(double amount, Time now) {
  Refill(now);
  // A peer that spends without end has to wait for half a second afterwards, and no longer.
  left_ = std::max(left_ - amount, -per_second_ / 2);
  return left_ >= 0;
}

bool Allowance::IsWhole(Time now) {
  Refill(now);
  return left_ >= most_;
}

void Allowance::Refill(Time now) {
  if (then_ != Time()) {
    const std::chrono::duration<double> passed = now - then_;
    left_ = std::min(most_, left_ + per_second_ * passed.count());
  }
  then_ = now;
}

}  // namespace warpfold::server
