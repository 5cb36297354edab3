// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether files have changed: been written, replaced, or reached by another link.
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

  // Whether they have since the last time it was true. To be called often; checks once a second. It is true
  // before the files are read: what changes meanwhile is seen at the next check.
  bool HasChanged(absl::Time now);

  // Tells that the files as they are could not be used. This may pass without a change of the files, so
  // HasChanged is true at the next check, too.
  void TryAgain() { seen_.clear(); }

 private:
  std::string Signature() const;

  const std::vector<std::string> paths_;
  std::string seen_;
  absl::Time next_check_ = absl::InfinitePast();
};

}  // namespace warpfold::server
