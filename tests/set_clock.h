// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Lets a test set this process's time of day, as a time server does, or a virtual machine that resumes. Only
// one source of an executable may include this: it defines clock_gettime, which is used instead of the
// system's by gRPC, Abseil and the standard library, too.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>

namespace warpfold {

// How far the time of day is ahead of the system's.
inline std::atomic<std::time_t> clock_ahead_s = 0;

// Sets the time of day forward, or back, until the end of a test.
class ClockSetter {
 public:
  ~ClockSetter() { clock_ahead_s = 0; }
  void Set(std::chrono::seconds ahead) { clock_ahead_s = ahead.count(); }
};

}  // namespace warpfold

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += warpfold::clock_ahead_s;
  return static_cast<int>(result);
}
