// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How far a reduction has got, on standard error: as a bar if that is a terminal, or, if requested, as one
// line a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {

// "  45 % [=====     ] 1.21 GB  2.31 GB/s  3 s left", or without the percentage and the time left if the
// total is not known.
std::string ProgressLine(std::uint64_t bytes, std::optional<std::uint64_t> total, absl::Duration elapsed);

// Threads: Add may be called from any thread.
class Progress {
 public:
  // Without `may_draw`, there is no bar: whoever prints results meanwhile may share the terminal with it.
  explicit Progress(std::optional<std::uint64_t> total, bool lines = false, bool may_draw = true);
  // Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(std::uint64_t bytes);

 private:
  const std::optional<std::uint64_t> total_;
  const bool visible_;
  const bool lines_;  // if there is no bar
  const absl::Time start_ = SteadyNow();
  absl::Mutex mutex_;
  std::uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time drawn_ ABSL_GUARDED_BY(mutex_) = start_;
};

}  // namespace warpfold::cli
