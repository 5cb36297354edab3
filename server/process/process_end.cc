// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/process_end.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>

#include "server/log/logging.h"

namespace warpfold::server {
namespace {

constexpr timespec kSignalInterval = {.tv_sec = 0, .tv_nsec = 10'000'000};
constexpr auto kOneRequest = std::chrono::milliseconds(200);
// How long startup may take to reach the point where it learns of a request.
constexpr auto kHeardWithin = std::chrono::seconds(5);

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Ends the process in the way in which the signal ends one that does not handle it: a shell distinguishes an
// interrupt from a request to end by that.
[[noreturn]] void EndBySignal(int number) {
  std::signal(number, SIG_DFL);
  std::raise(number);
  // The other signal may have come, too, and must not be the one that ends the process.
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  std::_Exit(128 + number);
}

}  // namespace

ProcessEnd& ProcessEnd::Make() {
  const sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto* const end = new ProcessEnd;
  std::thread([end] { end->Run(); }).detach();
  return *end;
}

void ProcessEnd::ServeFromNow() {
  const std::lock_guard lock(mutex_);
  is_serving_ = true;
}

void ProcessEnd::Watch(std::function<void()> check) {
  const std::lock_guard lock(mutex_);
  check_ = std::move(check);
}

void ProcessEnd::AwaitRequest() {
  std::unique_lock lock(mutex_);
  is_awaited_ = true;
  requested_.wait(lock, [this] { return is_requested_; });
}

void ProcessEnd::EndWithin(absl::Duration timeout, int exit_code) {
  const std::lock_guard lock(mutex_);
  deadline_ = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  exit_code_ = exit_code;
}

void ProcessEnd::Run() {
  const sigset_t signals = EndSignals();
  while (true) {
    const int number = sigtimedwait(&signals, nullptr, &kSignalInterval);  // negative: none has come
    const std::lock_guard lock(mutex_);
    if (number > 0) TakeSignal(number, std::chrono::steady_clock::now());
    Check(std::chrono::steady_clock::now());
  }
}

void ProcessEnd::TakeSignal(int number, Time now) {
  if (!is_serving_) EndBySignal(number);
  if (!std::exchange(is_requested_, true)) {
    requested_by_ = number;
    requested_at_ = now;
    return requested_.notify_all();
  }
  if (now - requested_at_ < kOneRequest) return;
  Log(LogLevel::kWarning, "stopped while draining: a second signal");
  FlushLog();
  EndBySignal(number);
}

void ProcessEnd::Check(Time now) {
  if (check_ != nullptr) check_();
  if (is_requested_ && !is_awaited_ && deadline_ == Time::max() && now >= requested_at_ + kHeardWithin) {
    Log(LogLevel::kWarning, "the start does not come to its end: ended by a signal");
    FlushLog();
    EndBySignal(requested_by_);
  }
  if (now < deadline_) return;
  Log(LogLevel::kWarning, "not waiting for what does not end: a file, or the device's driver");
  FlushLog();
  std::_Exit(exit_code_);
}

}  // namespace warpfold::server
