// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls in progress and the last ones that failed, for readers that must not wait for busy shards.
//
// Threads: all methods from any thread. The lock is held only for moments, never while text is made.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"
#include "server/core/call_observer.h"

namespace warpfold::server {

class CallTable {
 public:
  static constexpr std::size_t kMaxFailures = 20;

  struct Failure {
    absl::Time time;  // of day
    CallRecord record;
  };

  // Methods that have counts before the first call.
  explicit CallTable(const std::vector<std::string>& methods);

  void Add(const std::shared_ptr<const LiveCall>& call);
  // `now` is the time of day.
  void Remove(const std::shared_ptr<const LiveCall>& call, const CallRecord& record, absl::Time now);

  // Oldest first.
  std::vector<std::shared_ptr<const LiveCall>> Live() const;
  // Latest first, kMaxFailures at most.
  std::vector<Failure> Failures() const;

  // By method, which are few.
  struct Counts {
    std::uint64_t live = 0;
    std::uint64_t bytes = 0;  // of arrays: of all ended calls, and of live ones so far. Never decreases.
  };
  std::map<std::string, Counts> CountsByMethod() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::shared_ptr<const LiveCall>> live_;  // guarded by mutex_, as the others
  std::map<std::string, std::uint64_t> ended_bytes_;
  std::deque<Failure> failures_;  // latest first
};

}  // namespace warpfold::server
