// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Lets a test set this process's time of day, as a time server does, or a virtual machine that resumes. Only
// one source of an executable may include this: it defines clock_gettime and syscall, which gRPC, Abseil and
// the standard library then use instead of the system's.
#pragma once

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
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

inline std::chrono::nanoseconds SinceEpoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The system's function, which has up to six arguments. It is looked up without a lock, which may call it.
template <class... Arguments>
long SystemCall(long number, Arguments... arguments) {
  using Function = long (*)(long, ...);
  static std::atomic<Function> function = nullptr;
  if (function == nullptr) function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "syscall"));
  return function.load()(number, arguments...);
}

// Waits on a futex until a time of day, as Abseil does. The kernel ends such a wait when that time comes,
// even if somebody sets the clock meanwhile: this waits for a moment at a time, and looks at the clock.
inline long WaitOnFutex(const long (&arguments)[6]) {
  const std::chrono::nanoseconds until = SinceEpoch(*reinterpret_cast<const timespec*>(arguments[3]));
  while (true) {
    timespec time = {};
    SystemCall(SYS_clock_gettime, CLOCK_REALTIME, &time);
    const std::chrono::nanoseconds now = SinceEpoch(time);
    // The kernel knows no times before its epoch.
    const std::chrono::nanoseconds system_until =
        std::max(until - std::chrono::seconds(clock_ahead_s), std::chrono::nanoseconds(0));
    const std::chrono::nanoseconds end = std::min(system_until, now + std::chrono::milliseconds(10));
    time = {.tv_sec = end.count() / 1'000'000'000, .tv_nsec = end.count() % 1'000'000'000};
    const long result =
        SystemCall(SYS_futex, arguments[0], arguments[1], arguments[2], &time, arguments[4], arguments[5]);
    if (result == 0 || errno != ETIMEDOUT || end == system_until) return result;
  }
}

}  // namespace warpfold

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = warpfold::SystemCall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += warpfold::clock_ahead_s;
  return static_cast<int>(result);
}

extern "C" long syscall(long number, ...) noexcept {
  long arguments[6] = {};
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const bool has_time = arguments[3] != 0 && (arguments[1] & FUTEX_CLOCK_REALTIME) != 0;
  if (number == SYS_futex && has_time) return warpfold::WaitOnFutex(arguments);
  return warpfold::SystemCall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                              arguments[5]);
}
