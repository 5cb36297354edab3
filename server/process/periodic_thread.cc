// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/periodic_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace warpfold::server {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

void Run(const std::stop_token& over, const std::function<void()>& turn) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stopped.wait_for(lock, over, kInterval, [&over] { return over.stop_requested(); })) turn();
}

}  // namespace

PeriodicThread::PeriodicThread(std::function<void()> turn)
    : thread_([turn = std::move(turn)](const std::stop_token& over) { Run(over, turn); }) {}

}  // namespace warpfold::server
