// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What each party has had of the server, summed over all shards: its tag, which the messages that are taken
// from it advance. turns.h compares tags. A party whose calls all lie on few shards gets no more than those
// can do, so its tag stays behind the others', and on these shards it is always next.
//
// The highest start of a message that was taken is the tags' present. No tag counts as further behind it than
// kMostBehind: so much, and no more, has a party to make up for that was silent, or that came just now.
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
  // It takes a 16-core server some milliseconds to serve so much.
  static constexpr std::uint64_t kMostBehind = 16 << 20;
  // Parties without calls are remembered, or a party could come back with a tag that is behind as often as it
  // likes. When there are so many, those that do not matter any more are forgotten, or else all of them.
  static constexpr std::size_t kMostAbsent = 1024;

  // Where a party's next message starts. Its address is the same from Join to Leave.
  class Tag {
   private:
    friend class PartyTags;
    std::atomic<std::uint64_t> value_ = 0;
    int members_ = 0;  // guarded by PartyTags::mutex_
  };

  // A shard has calls of the party; Leave is to be called as often as Join.
  Tag& Join(const std::string& party);
  void Leave(const std::string& party);

  // Whether parties compete for the server at all. It may change at any time.
  bool has_several() const { return present_.load(std::memory_order_relaxed) > 1; }

  // Where the party's next message starts.
  std::uint64_t Start(const Tag& tag) const;
  // A message of the party is taken.
  void Charge(Tag& tag, std::uint64_t cost);

  // How many parties are remembered, with calls or without.
  std::size_t size() const;

 private:
  void ForgetAbsentLocked();
  std::uint64_t Oldest() const;

  std::atomic<std::uint64_t> present_tag_ = 0;
  std::atomic<int> present_ = 0;  // parties with members
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Tag> tags_;  // guarded by mutex_; its elements stay where they are
};

}  // namespace warpfold::server
