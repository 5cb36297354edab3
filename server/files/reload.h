// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A record of files that are read again when they change, for those who monitor the server: a file that is
// rejected changes nothing, so that the rejection is easily overlooked.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace warpfold::server {

struct Reload {
  std::string file;           // what it holds: "keys" or "allow"
  bool is_successful = true;  // false: the newest contents were rejected, and older ones are in use
  absl::Time used_since;      // when those in use were read
};

// Threads: one writes, any reads.
class ReloadRecord {
 public:
  void Succeeded() {
    used_since_ns_ = absl::GetCurrentTimeNanos();
    is_successful_ = true;
  }
  void Failed() { is_successful_ = false; }

  Reload Last(const std::string& file) const {
    return {.file = file, .is_successful = is_successful_, .used_since = absl::FromUnixNanos(used_since_ns_)};
  }

 private:
  std::atomic<bool> is_successful_ = true;
  std::atomic<std::int64_t> used_since_ns_ = 0;
};

}  // namespace warpfold::server
