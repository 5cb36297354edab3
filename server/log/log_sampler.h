// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides which lines of a kind to write, if any client can cause thousands of them in a second: the first
// few of each second. The others are counted.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/time/time.h"

namespace warpfold::server {

// Threads: any.
class LogSampler {
 public:
  // Whether to write a line of `kind` at `now`. Kinds are few: they are not the client's words.
  bool Admit(const std::string& kind, absl::Time now);

  // How many lines of each kind were left out in seconds that are over at `now`; each is reported once.
  std::map<std::string, std::int64_t> TakeLeftOut(absl::Time now);

 private:
  struct Second {
    absl::Time begin;
    std::int64_t lines = 0;
    std::int64_t left_out = 0;  // including earlier seconds, until it is reported
  };

  std::mutex mutex_;
  std::map<std::string, Second> seconds_;  // guarded by mutex_
};

}  // namespace warpfold::server
