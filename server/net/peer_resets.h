// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many calls a peer may take back over all its connections: each could keep below what one may do, and
// all together make gRPC hold gigabytes (docs/adr/0045).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/net/allowance.h"

namespace warpfold::server {

// Threads: any.
class PeerResets {
 public:
  // At once, and in a second for ever: as much as five connections may.
  static constexpr double kMost = 5000;
  static constexpr double kPerSecond = 2500;

  // Whether the peer may take back so many calls.
  bool Spend(double calls, Allowance::Time now);
  // Whether it may take back any.
  bool HasSome(Allowance::Time now);
  // Whether it may take back as many as ever.
  bool IsWhole(Allowance::Time now);

 private:
  std::mutex mutex_;
  Allowance allowance_{kMost, kPerSecond};  // guarded by mutex_
};

// Threads: any.
class AllPeersResets {
 public:
  // Those of a peer, for one of its connections. They are remembered after its last connection until they are
  // whole again: connecting anew brings no others.
  std::shared_ptr<PeerResets> Of(const std::string& peer, Allowance::Time now);

  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PeerResets>> peers_;  // guarded by mutex_
};

}  // namespace warpfold::server
