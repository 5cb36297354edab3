// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Limits what a peer does over all its connections. Otherwise each connection could stay below its own limits
// while all together make gRPC hold gigabytes (docs/adr/0045).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/net/allowance.h"

namespace warpfold::server {

// Threads: any.
class PeerAllowances {
 public:
  // Calls that it cancels, at once and then in each second: as many as five connections may.
  static constexpr double kMaxResets = 5000;
  static constexpr double kResetsPerSecond = 2500;

  // Small frames (frame_watch.h), likewise. A message that never ends keeps them for as long as an idle
  // stream lives.
  static constexpr double kMaxSmallFrames = 100'000;
  static constexpr double kSmallFramesPerSecond = 20'000;

  // Whether the peer may cancel this many calls.
  bool SpendResets(double calls, Allowance::Time now);
  // Whether it may cancel any, and send any small frame.
  bool HasSome(Allowance::Time now);
  // Whether it may send this many small frames.
  bool SpendSmallFrames(double frames, Allowance::Time now);
  // Whether its allowances are full.
  bool IsWhole(Allowance::Time now);

 private:
  std::mutex mutex_;
  Allowance resets_{kMaxResets, kResetsPerSecond};                  // guarded by mutex_
  Allowance small_frames_{kMaxSmallFrames, kSmallFramesPerSecond};  // guarded by mutex_
};

// Threads: any.
class AllPeersAllowances {
 public:
  // The allowances of a peer, for one of its connections. They are remembered after its last connection until
  // they are full again: reconnecting gives no new ones.
  std::shared_ptr<PeerAllowances> Of(const std::string& peer, Allowance::Time now);

  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PeerAllowances>> peers_;  // guarded by mutex_
};

}  // namespace warpfold::server
