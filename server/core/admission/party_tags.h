// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A party's tag says how much service it has had, summed over all shards: each message that is taken from it
// advances the tag. turns.h compares tags. A party whose calls are all on a few shards gets no more than
// these can do, so its tag stays behind the others', and on these shards it is almost always next.
//
// However low a tag is, it counts as at most kMaxBehind below the highest start of all messages that were
// taken. So a party that was silent, or that has just arrived, can catch up by this much, and no more.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace warpfold::server {

class PartyTags {
 public:
  // Less than 2 ms of a server that takes 10 GB/s.
  static constexpr std::uint64_t kMaxBehind = 16 << 20;
  // Parties without calls are remembered; otherwise a party could come back with a tag that is behind as
  // often as it likes. When there are this many, those that no longer matter are forgotten, or else all of
  // them.
  static constexpr std::size_t kMaxAbsent = 1024;

  // Where a party's next message starts. Its address is the same from Join to Leave.
  class Tag {
   private:
    friend class PartyTags;
    std::atomic<std::uint64_t> value_ = 0;
    int members_ = 0;  // guarded by PartyTags::mutex_
  };

  // A shard has calls of the party; Leave must be called as often as Join.
  Tag& Join(const std::string& party);
  void Leave(const std::string& party);

  // Whether parties compete for the server at all. It may change at any time.
  bool has_several() const { return with_calls_.load(std::memory_order_relaxed) > 1; }

  // Where the party's next message starts.
  std::uint64_t Start(const Tag& tag) const;
  // A message of the party is taken.
  void Charge(Tag& tag, std::uint64_t cost);

  // How many parties are remembered, with calls or without.
  std::size_t size() const;

 private:
  void ForgetAbsentLocked();
  std::uint64_t Oldest() const;

  std::atomic<std::uint64_t> highest_start_ = 0;
  std::atomic<int> with_calls_ = 0;  // parties that have members
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Tag> tags_;  // guarded by mutex_; its elements stay where they are
};

}  // namespace warpfold::server
