// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Detects whether files have changed: been written, replaced, or reached through another link.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace warpfold::server {

// Threads: one.
class FileWatch {
 public:
  // Paths; empty ones are no files.
  explicit FileWatch(std::vector<std::string> paths);

  // Whether they have changed since this last returned true. Call this often; it checks once a second. It
  // returns true before the files are read: changes meanwhile are seen at the next check.
  bool HasChanged(absl::Time now);

  // Says that the files could not be used as they are. The cause may pass without a change of the files, so
  // HasChanged is true at the next check, too.
  void TryAgain() { seen_.clear(); }

 private:
  std::string Signature() const;

  const std::vector<std::string> paths_;
  std::string seen_;
  absl::Time next_check_ = absl::InfinitePast();
};

}  // namespace warpfold::server
