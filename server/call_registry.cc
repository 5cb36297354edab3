// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/call_registry.h"

#include <utility>

namespace warpfold::server {

CallRegistry::Registration::Registration(Registration&& other) noexcept
    : registry_(std::exchange(other.registry_, nullptr)), call_(other.call_) {}

CallRegistry::Registration& CallRegistry::Registration::operator=(Registration&& other) noexcept {
  std::swap(registry_, other.registry_);
  std::swap(call_, other.call_);
  return *this;
}

CallRegistry::Registration::~Registration() {
  if (registry_ == nullptr) return;
  Entry removed;  // destroyed after the lock is: its callback may hold the last reference to something
  const std::lock_guard lock(registry_->mutex_);
  const auto entry = registry_->entries_.find(call_);
  removed = std::move(entry->second);
  registry_->entries_.erase(entry);
}

CallRegistry::Registration CallRegistry::Add(std::shared_ptr<CallControl> call,
                                             std::function<void()> on_stop) {
  const CallControl* key = call.get();
  const std::lock_guard lock(mutex_);
  entries_.emplace(key, Entry{std::move(call), std::move(on_stop)});
  return Registration(this, key);
}

std::vector<CallRegistry::Entry> CallRegistry::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  entries.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) entries.push_back(entry);
  return entries;
}

void CallRegistry::Sweep(absl::Time now) {
  for (const Entry& entry : Snapshot()) {
    absl::Status overdue = entry.call->Overdue(now);
    if (!overdue.ok() && entry.call->Stop(std::move(overdue))) entry.on_stop();
  }
}

void CallRegistry::StopAll(const absl::Status& why) {
  for (const Entry& entry : Snapshot()) {
    if (entry.call->Stop(why)) entry.on_stop();
  }
}

}  // namespace warpfold::server
