// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Determines which of the users who share something had a turn longest ago.
//
// Threads: one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace warpfold::server {

class UserTurns {
 public:
  // The number of the user's last turn, 0 before the first: the lowest is next.
  std::uint64_t LastOf(uid_t user) const {
    const auto found = last_.find(user);
    return found != last_.end() ? found->second : 0;
  }
  void Take(uid_t user) { last_[user] = ++count_; }

 private:
  std::uint64_t count_ = 0;
  std::map<uid_t, std::uint64_t> last_;
};

}  // namespace warpfold::server
