// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

struct Start {
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
  absl::Time time_of_day = absl::FromChrono(std::chrono::system_clock::now());
};

}  // namespace

absl::Time SteadyNow() {
  static const Start start;
  return start.time_of_day + absl::FromChrono(std::chrono::steady_clock::now() - start.steady);
}

std::chrono::system_clock::time_point ToSystemTime(absl::Time steady) {
  if (steady == absl::InfiniteFuture()) return std::chrono::system_clock::time_point::max();
  // In this order, so that a thread that is interrupted in between waits too long rather than not long
  // enough.
  const absl::Duration left = steady - SteadyNow();
  return absl::ToChronoTime(absl::FromChrono(std::chrono::system_clock::now()) + left);
}

}  // namespace warpfold
