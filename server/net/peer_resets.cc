// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/peer_resets.h"

namespace warpfold::server {

bool PeerResets::Spend(double calls, Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  return allowance_.Spend(calls, now);
}

bool PeerResets::HasSome(Allowance::Time now) { return Spend(0, now); }

bool PeerResets::IsWhole(Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  return allowance_.IsWhole(now);
}

std::shared_ptr<PeerResets> AllPeersResets::Of(const std::string& peer, Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  if (const auto known = peers_.find(peer); known != peers_.end()) return known->second;
  // Only those that have a connection can be in use, and there are no more of these than connections.
  std::erase_if(peers_, [now](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->IsWhole(now);
  });
  return peers_.emplace(peer, std::make_shared<PeerResets>()).first->second;
}

std::size_t AllPeersResets::size() const {
  const std::lock_guard lock(mutex_);
  return peers_.size();
}

}  // namespace warpfold::server
