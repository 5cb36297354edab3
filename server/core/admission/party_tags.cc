// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/party_tags.h"

#include <algorithm>

namespace warpfold::server {
namespace {

void RaiseTo(std::atomic<std::uint64_t>& value, std::uint64_t least) {
  std::uint64_t now = value.load(std::memory_order_relaxed);
  while (now < least && !value.compare_exchange_weak(now, least, std::memory_order_relaxed)) {
  }
}

}  // namespace

PartyTags::Tag& PartyTags::Join(const std::string& party) {
  const std::lock_guard lock(mutex_);
  Tag& tag = tags_[party];
  if (tag.members_++ == 0) with_calls_.fetch_add(1, std::memory_order_relaxed);
  return tag;
}

void PartyTags::Leave(const std::string& party) {
  const std::lock_guard lock(mutex_);
  if (--tags_.find(party)->second.members_ > 0) return;
  const int with_calls = with_calls_.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (tags_.size() > static_cast<std::size_t>(with_calls) + kMaxAbsent) ForgetAbsentLocked();
}

void PartyTags::ForgetAbsentLocked() {
  const std::uint64_t oldest = Oldest();
  std::erase_if(tags_, [oldest](const auto& entry) {
    const Tag& tag = entry.second;
    return tag.members_ == 0 && tag.value_.load(std::memory_order_relaxed) <= oldest;
  });
  const auto with_calls = static_cast<std::size_t>(with_calls_.load(std::memory_order_relaxed));
  if (tags_.size() <= with_calls + kMaxAbsent / 2) return;
  std::erase_if(tags_, [](const auto& entry) { return entry.second.members_ == 0; });
}

std::uint64_t PartyTags::Oldest() const {
  const std::uint64_t highest = highest_start_.load(std::memory_order_relaxed);
  return highest - std::min(highest, kMaxBehind);
}

std::uint64_t PartyTags::Start(const Tag& tag) const {
  return std::max(tag.value_.load(std::memory_order_relaxed), Oldest());
}

void PartyTags::Charge(Tag& tag, std::uint64_t cost) {
  RaiseTo(tag.value_, Oldest());
  RaiseTo(highest_start_, tag.value_.fetch_add(cost, std::memory_order_relaxed));
}

std::size_t PartyTags::size() const {
  const std::lock_guard lock(mutex_);
  return tags_.size();
}

}  // namespace warpfold::server
