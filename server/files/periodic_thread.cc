// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/periodic_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace warpfold::server {
namespace {

constexpr auto kReadInterval = std::chrono::milliseconds(100);

void Run(const std::stop_token& over, const std::function<void()>& check) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stopped.wait_for(lock, over, kReadInterval, [&over] { return over.stop_requested(); })) check();
}

}  // namespace

PeriodicThread::PeriodicThread(std::function<void()> check)
    : thread_([check = std::move(check)](const std::stop_token& over) { Run(over, check); }) {}

}  // namespace warpfold::server
