// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/call_table.h"

#include <algorithm>

namespace warpfold::server {

CallTable::CallTable(const std::vector<std::string>& methods) {
  for (const std::string& method : methods) ended_bytes_[method] = 0;
}

void CallTable::Add(const std::shared_ptr<const LiveCall>& call) {
  const std::lock_guard lock(mutex_);
  live_.insert(call);
}

void CallTable::Remove(const std::shared_ptr<const LiveCall>& call, const CallRecord& record,
                       absl::Time now) {
  const std::lock_guard lock(mutex_);
  live_.erase(call);
  // This is not less than the page showed while the call was in progress.
  ended_bytes_[call->method] += std::max(record.bytes, call->bytes.load(std::memory_order_relaxed));
  if (record.status.ok()) return;
  failures_.push_front({.time = now, .record = record});
  if (failures_.size() > kMaxFailures) failures_.pop_back();
}

std::vector<std::shared_ptr<const LiveCall>> CallTable::Live() const {
  std::vector<std::shared_ptr<const LiveCall>> live;
  {
    const std::lock_guard lock(mutex_);
    live.assign(live_.begin(), live_.end());
  }
  std::sort(live.begin(), live.end(), [](const auto& a, const auto& b) { return a->begin < b->begin; });
  return live;
}

std::vector<CallTable::Failure> CallTable::Failures() const {
  const std::lock_guard lock(mutex_);
  return {failures_.begin(), failures_.end()};
}

std::map<std::string, CallTable::Counts> CallTable::CountsByMethod() const {
  std::map<std::string, Counts> counts;
  const std::lock_guard lock(mutex_);
  for (const auto& [method, bytes] : ended_bytes_) counts[method].bytes = bytes;
  for (const auto& call : live_) {
    Counts& count = counts[call->method];
    ++count.live;
    count.bytes += call->bytes.load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace warpfold::server
