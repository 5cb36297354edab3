// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log_queue.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

namespace warpfold::server {
namespace {

// Writes all of `text`, however long that takes. A descriptor that refuses it loses it: there is nobody to
// tell.
void WriteAll(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      // Another process may have made the pipe or terminal that we share non-blocking.
      pollfd ready = {.fd = descriptor, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, /*timeout=*/1000);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

LogQueue& LogQueue::Make(int descriptor, std::size_t capacity_bytes, DropNotice drop_notice) {
  auto* const queue = new LogQueue(descriptor, capacity_bytes, std::move(drop_notice));
  // Signals are for those who wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread([queue] { queue->Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return *queue;
}

void LogQueue::Push(std::string line) {
  const std::lock_guard lock(mutex_);
  if (bytes_ + line.size() > capacity_bytes_) {
    ++dropped_;
    ++all_dropped_;
    return;
  }
  NoteDropsLocked();
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

void LogQueue::NoteDropsLocked() {
  if (dropped_ == 0) return;
  lines_.push_back(drop_notice_(std::exchange(dropped_, 0)));
  bytes_ += lines_.back().size();
}

bool LogQueue::Flush(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  NoteDropsLocked();
  changed_.notify_all();
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                           [this] { return lines_.empty() && !writing_; });
}

void LogQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !lines_.empty(); });
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    bytes_ -= line.size();
    if (lines_.empty()) NoteDropsLocked();
    writing_ = true;
    lock.unlock();
    WriteAll(descriptor_, line);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace warpfold::server
