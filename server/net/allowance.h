// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// So many of something at once, and so many in a second for ever: what is taken out comes back with time.
#pragma once

#include <chrono>

namespace warpfold::server {

// Threads: one at a time.
class Allowance {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Allowance(double most, double per_second) : most_(most), per_second_(per_second), left_(most) {}

  // Whether there was as much as `amount`. What was missing is owed, half a second's worth at most.
  bool Spend(double amount, Time now);
  // Whether all is there again.
  bool IsWhole(Time now);

 private:
  void Refill(Time now);

  const double most_;
  const double per_second_;
  double left_;
  Time then_;
};

}  // namespace warpfold::server
