// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace warpfold::server {
namespace {

// The number of bytes written at once, or up to a line more.
constexpr std::size_t kBatchBytes = std::size_t{64} << 10;

constexpr std::chrono::milliseconds kGathering{5};

// Writes all of `text`, however long that takes. Returns how many of its lines are lost, whole or in part,
// since the descriptor refuses them, as a full disk does. They are not retried: later ones may fit.
std::size_t WriteAll(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      // Another process may have made the pipe or terminal that we share non-blocking.
      pollfd ready = {.fd = descriptor, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, /*timeout=*/1000);
    } else if (errno != EINTR) {
      const auto lost = std::count(text.begin() + static_cast<std::ptrdiff_t>(done), text.end(), '\n');
      return static_cast<std::size_t>(lost);
    }
  }
  return 0;
}

}  // namespace

LogQueue& LogQueue::Make(int descriptor, std::size_t capacity_bytes, DropNotice drop_notice) {
  auto* const queue = new LogQueue(descriptor, capacity_bytes, std::move(drop_notice));
  // Signals are for the threads that wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread([queue] { queue->Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return *queue;
}

void LogQueue::Push(Line line, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes_ + bytes > capacity_bytes_) {
    ++dropped_;
    ++all_dropped_;
    return;
  }
  NoteDropsLocked();
  bytes_ += bytes;
  lines_.push_back({std::move(line), bytes});
  if (sleeping_) changed_.notify_all();
}

void LogQueue::NoteDropsLocked() {
  if (dropped_ == 0) return;
  const std::int64_t noted = std::exchange(dropped_, 0);
  std::string notice = drop_notice_(noted);
  const std::size_t bytes = notice.size();
  lines_.push_back({[notice = std::move(notice)] { return notice; }, bytes, noted});
  bytes_ += bytes;
}

bool LogQueue::Flush(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  NoteDropsLocked();
  ++flushing_;
  changed_.notify_all();
  const bool written = changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                                         [this] { return lines_.empty() && !writing_; });
  --flushing_;
  return written;
}

LogQueue::Batch LogQueue::TakeBatch(std::unique_lock<std::mutex>& lock) {
  Batch batch;
  while (!lines_.empty() && batch.text.size() < kBatchBytes) {
    const Waiting waiting = std::move(lines_.front());
    lines_.pop_front();
    bytes_ -= waiting.bytes;
    if (lines_.empty()) NoteDropsLocked();
    writing_ = true;
    lock.unlock();
    batch.text += waiting.line();
    batch.noted.push_back(waiting.noted);
    lock.lock();
  }
  return batch;
}

void LogQueue::CountRefusedLocked(const Batch& batch, std::size_t refused) {
  const std::size_t written = batch.noted.size() - std::min(refused, batch.noted.size());
  for (std::size_t i = written; i < batch.noted.size(); ++i) {
    const bool is_notice = batch.noted[i] > 0;
    dropped_ += is_notice ? batch.noted[i] : 1;
    all_dropped_ += is_notice ? 0 : 1;
  }
}

void LogQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    sleeping_ = true;
    changed_.wait(lock, [this] { return !lines_.empty(); });
    sleeping_ = false;
    const Batch batch = TakeBatch(lock);
    lock.unlock();
    const std::size_t refused = WriteAll(descriptor_, batch.text);
    lock.lock();
    CountRefusedLocked(batch, refused);
    writing_ = false;
    changed_.notify_all();
    // Waking a thread costs a call that is ending some microseconds. While lines come one after the other,
    // they are gathered instead.
    changed_.wait_for(lock, kGathering, [this] { return flushing_ > 0 || bytes_ >= kBatchBytes; });
  }
}

}  // namespace warpfold::server
