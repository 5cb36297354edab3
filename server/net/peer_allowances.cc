// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/peer_allowances.h"

namespace warpfold::server {

bool PeerAllowances::SpendResets(double calls, Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  return resets_.Spend(calls, now);
}

bool PeerAllowances::SpendSmallFrames(double frames, Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  return small_frames_.Spend(frames, now);
}

bool PeerAllowances::HasSome(Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  return resets_.Spend(0, now) && small_frames_.Spend(0, now);
}

bool PeerAllowances::IsWhole(Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  return resets_.IsWhole(now) && small_frames_.IsWhole(now);
}

std::shared_ptr<PeerAllowances> AllPeersAllowances::Of(const std::string& peer, Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  if (const auto known = peers_.find(peer); known != peers_.end()) return known->second;
  // An entry is in use until the descriptor of its last connection is given to another one. So there are no
  // more of them in use than connections that may be open at once.
  std::erase_if(peers_, [now](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->IsWhole(now);
  });
  return peers_.emplace(peer, std::make_shared<PeerAllowances>()).first->second;
}

std::size_t AllPeersAllowances::size() const {
  const std::lock_guard lock(mutex_);
  return peers_.size();
}

}  // namespace warpfold::server
