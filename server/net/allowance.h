// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A token bucket: it holds `most` tokens at first and at most, and gains `per_second` tokens each second.
#pragma once

#include <chrono>

namespace warpfold::server {

// Threads: one at a time.
class Allowance {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Allowance(double most, double per_second) : most_(most), per_second_(per_second), left_(most) {}

  // Takes `amount` tokens and says whether there were enough. What was missing is owed, up to what half a
  // second brings.
  bool Spend(double amount, Time now);
  // Whether it holds as many tokens as it can.
  bool IsWhole(Time now);

 private:
  void Refill(Time now);

  const double most_;
  const double per_second_;
  double left_;
  Time then_;
};

}  // namespace warpfold::server
