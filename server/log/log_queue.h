// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Lines on their way to a descriptor that may not take them: a pipe that nobody reads must not hold up
// callers that log. The queue's own thread makes the lines and writes them, so that a caller pays neither for
// formatting nor for waking a thread at every line. Lines that do not fit in the queue, or that the
// descriptor refuses, are dropped and counted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace warpfold::server {

class LogQueue {
 public:
  // Makes a line, ended by a newline, on the queue's thread. It must own what it needs.
  using Line = std::function<std::string()>;
  // Makes a line that says how many were dropped before it.
  using DropNotice = std::function<std::string(std::int64_t dropped)>;

  // Never destroyed, since its thread may be held up for ever. Throws std::system_error if no thread can be
  // made. `capacity_bytes` bounds the lines that wait.
  static LogQueue& Make(int descriptor, std::size_t capacity_bytes, DropNotice drop_notice);

  // Takes a line that occupies `bytes`, or drops it. It is written within a few milliseconds, if the
  // descriptor accepts it. From any thread; does not wait for the descriptor.
  void Push(Line line, std::size_t bytes);

  // How many lines were dropped since the queue was made. From any thread; does not wait.
  std::int64_t dropped() const { return all_dropped_; }

  // Waits until all lines are written, for `timeout` at most. Returns whether they are.
  bool Flush(absl::Duration timeout);

 private:
  LogQueue(int descriptor, std::size_t capacity_bytes, DropNotice drop_notice)
      : descriptor_(descriptor), capacity_bytes_(capacity_bytes), drop_notice_(std::move(drop_notice)) {}

  struct Waiting {
    Line line;
    std::size_t bytes;
    std::int64_t noted = 0;  // for a notice: how many lines it reports as dropped
  };
  struct Batch {
    std::string text;
    std::vector<std::int64_t> noted;  // of each of its lines
  };

  void Run();
  void NoteDropsLocked();
  Batch TakeBatch(std::unique_lock<std::mutex>& lock);
  // How many lines at the batch's end the descriptor has refused. A notice among them does not count as a
  // line: the next notice includes its number.
  void CountRefusedLocked(const Batch& batch, std::size_t refused);

  const int descriptor_;
  const std::size_t capacity_bytes_;
  const DropNotice drop_notice_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> lines_;  // guarded by mutex_
  std::size_t bytes_ = 0;      // guarded by mutex_; of lines_
  std::int64_t dropped_ = 0;   // guarded by mutex_; since the last line that was taken
  std::atomic<std::int64_t> all_dropped_ = 0;
  bool writing_ = false;   // guarded by mutex_; lines have been taken that are not written yet
  bool sleeping_ = false;  // guarded by mutex_; the thread waits for a line, and is to be woken
  int flushing_ = 0;       // guarded by mutex_; callers that wait for all to be written
};

}  // namespace warpfold::server
