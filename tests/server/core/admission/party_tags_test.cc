// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/party_tags.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace warpfold::server {
namespace {

constexpr std::uint64_t kCost = 1 << 20;

TEST(PartyTagsTest, SeveralAreThoseWithCalls) {
  PartyTags tags;
  EXPECT_FALSE(tags.has_several());
  tags.Join("a");
  tags.Join("a");
  EXPECT_FALSE(tags.has_several());
  tags.Join("b");
  EXPECT_TRUE(tags.has_several());
  tags.Leave("a");
  EXPECT_TRUE(tags.has_several());
  tags.Leave("a");
  EXPECT_FALSE(tags.has_several());
}

TEST(PartyTagsTest, NoTagIsFurtherBehindThanTheMost) {
  PartyTags tags;
  PartyTags::Tag& busy = tags.Join("busy");
  PartyTags::Tag& silent = tags.Join("silent");
  tags.Charge(busy, PartyTags::kMaxBehind);
  EXPECT_EQ(tags.Start(silent), 0);
  for (int i = 0; i < 100; ++i) tags.Charge(busy, kCost);
  const std::uint64_t present = tags.Start(busy) - kCost;
  EXPECT_EQ(tags.Start(silent), present - PartyTags::kMaxBehind);
  tags.Charge(silent, kCost);
  EXPECT_EQ(tags.Start(silent), present - PartyTags::kMaxBehind + kCost);
}

TEST(PartyTagsTest, WhoComesBackIsWhereItWas) {
  PartyTags tags;
  tags.Join("stays");
  PartyTags::Tag& tag = tags.Join("party");
  for (int i = 0; i < 100; ++i) tags.Charge(tag, kCost);
  tags.Leave("party");
  EXPECT_EQ(tags.Start(tags.Join("party")), 100 * kCost);
}

TEST(PartyTagsTest, StrangersAreForgotten) {
  PartyTags tags;
  PartyTags::Tag& stays = tags.Join("stays");
  tags.Charge(stays, 8 * PartyTags::kMaxBehind);
  tags.Charge(stays, kCost);
  for (std::size_t i = 0; i < 10 * PartyTags::kMaxAbsent; ++i) {
    const std::string party = "stranger " + std::to_string(i);
    tags.Charge(tags.Join(party), 1);
    tags.Leave(party);
    ASSERT_LE(tags.size(), PartyTags::kMaxAbsent + 1);
  }
  EXPECT_EQ(tags.Start(stays), 8 * PartyTags::kMaxBehind + kCost);
}

TEST(PartyTagsTest, WhoIsThereIsNotForgottenHoweverLongItHasBeenSilent) {
  PartyTags tags;
  const PartyTags::Tag* const silent = &tags.Join("silent");
  PartyTags::Tag& busy = tags.Join("busy");
  tags.Charge(busy, 8 * PartyTags::kMaxBehind);
  tags.Charge(busy, kCost);
  for (std::size_t i = 0; i < 3 * PartyTags::kMaxAbsent; ++i) {
    const std::string party = "stranger " + std::to_string(i);
    tags.Join(party);
    tags.Leave(party);
    ASSERT_GE(tags.size(), 2u);
  }
  EXPECT_EQ(&tags.Join("silent"), silent);
}

TEST(PartyTagsTest, StrangersWhoHadNothingAreForgottenBeforeOneWhoHadMuch) {
  PartyTags tags;
  tags.Join("stays");
  tags.Charge(tags.Join("had much"), kCost);
  tags.Leave("had much");
  for (std::size_t i = 0; i < PartyTags::kMaxAbsent; ++i) {
    const std::string party = "stranger " + std::to_string(i);
    tags.Join(party);
    tags.Leave(party);
  }
  EXPECT_LE(tags.size(), 2u) << "they were forgotten";
  EXPECT_EQ(tags.Start(tags.Join("had much")), kCost);
}

TEST(PartyTagsTest, OfThoseWhoHadSomethingNoMoreThanSoManyAreRemembered) {
  PartyTags tags;
  for (std::size_t i = 0; i < 3 * PartyTags::kMaxAbsent; ++i) {
    const std::string party = "stranger " + std::to_string(i);
    tags.Charge(tags.Join(party), kCost);
    tags.Leave(party);
    ASSERT_LE(tags.size(), PartyTags::kMaxAbsent);
    ASSERT_TRUE(tags.size() == i + 1 || i >= PartyTags::kMaxAbsent) << i;
  }
}

// Also for ThreadSanitizer: shards come and go and charge at the same time.
TEST(PartyTagsTest, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 10'000;
  PartyTags tags;
  PartyTags::Tag& tag = tags.Join("party");
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&tags] {
      for (int time = 0; time < kTimes; ++time) {
        tags.Charge(tags.Join("party"), 3);
        tags.Leave("party");
      }
    });
  }
  threads.clear();
  EXPECT_EQ(tags.Start(tag), 3 * kThreads * kTimes);
  EXPECT_FALSE(tags.has_several());
}

}  // namespace
}  // namespace warpfold::server
