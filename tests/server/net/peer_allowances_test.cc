// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/peer_allowances.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpfold::server {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 1s

class PeerAllowancesTest : public testing::Test {
 protected:
  AllPeersAllowances peers_;
  Allowance::Time now_ = Allowance::Time() + 1h;
};

TEST_F(PeerAllowancesTest, AreThoseOfAllConnections) {
  const auto first = peers_.Of("192.0.2.1", now_);
  const auto second = peers_.Of("192.0.2.1", now_);
  EXPECT_TRUE(first->SpendResets(4000, now_));
  EXPECT_TRUE(second->SpendResets(1000, now_));
  EXPECT_FALSE(first->SpendResets(1, now_));
  EXPECT_FALSE(second->SpendResets(1, now_));
  EXPECT_TRUE(peers_.Of("192.0.2.2", now_)->SpendResets(5000, now_)) << "of others";
  now_ += 1s;
  EXPECT_TRUE(first->SpendResets(2498, now_)) << "what could not be spent counts, too";
  EXPECT_FALSE(first->SpendResets(1, now_));
}

TEST_F(PeerAllowancesTest, SmallFramesAreApartFromCalls) {
  const auto peer = peers_.Of("192.0.2.1", now_);
  EXPECT_TRUE(peer->SpendSmallFrames(100'000, now_));
  EXPECT_TRUE(peer->HasSome(now_));
  EXPECT_FALSE(peer->SpendSmallFrames(1, now_));
  EXPECT_FALSE(peer->HasSome(now_)) << "it owes one";
  EXPECT_TRUE(peer->SpendResets(5000, now_));
  now_ += 3s;
  EXPECT_FALSE(peer->IsWhole(now_));
  EXPECT_TRUE(peers_.Of("192.0.2.1", now_)->SpendSmallFrames(59'000, now_));
  EXPECT_FALSE(peer->SpendSmallFrames(2000, now_));
}

TEST_F(PeerAllowancesTest, WhoHasSpentAllMayConnectSoonAgain) {
  const auto peer = peers_.Of("192.0.2.1", now_);
  EXPECT_TRUE(peer->SpendResets(5000, now_));
  EXPECT_TRUE(peer->HasSome(now_)) << "nothing is owed";
  EXPECT_FALSE(peer->SpendResets(1'000'000, now_));
  EXPECT_FALSE(peer->HasSome(now_));
  now_ += 499ms;
  EXPECT_FALSE(peer->HasSome(now_));
  now_ += 2ms;
  EXPECT_TRUE(peer->HasSome(now_));
}

TEST_F(PeerAllowancesTest, OfManyConnectionsAtAPaceGoOnForEver) {
  for (int second = 0; second < 1000; ++second, now_ += 1s) {
    for (int connection = 0; connection < 100; ++connection) {
      ASSERT_TRUE(peers_.Of("192.0.2.1", now_)->SpendResets(25, now_));
    }
  }
}

TEST_F(PeerAllowancesTest, AreNotMoreForWhoConnectsAnew) {
  EXPECT_TRUE(peers_.Of("192.0.2.1", now_)->SpendResets(5000, now_));
  peers_.Of("192.0.2.2", now_);
  EXPECT_FALSE(peers_.Of("192.0.2.1", now_)->SpendResets(1, now_));
}

TEST_F(PeerAllowancesTest, AreForgottenWhenTheyAreWholeAndNobodyIsConnected) {
  const auto connected = peers_.Of("192.0.2.1", now_);
  for (int i = 0; i < 1000; ++i) peers_.Of("198.51.100." + std::to_string(i), now_);
  EXPECT_LE(peers_.size(), 2u);
  EXPECT_TRUE(peers_.Of("192.0.2.3", now_)->SpendResets(2500, now_));
  peers_.Of("192.0.2.4", now_);
  EXPECT_EQ(peers_.size(), 3u);
  now_ += 2s;
  peers_.Of("192.0.2.5", now_);
  EXPECT_EQ(peers_.size(), 2u);
  EXPECT_EQ(peers_.Of("192.0.2.1", now_), connected);
}

}  // namespace
}  // namespace warpfold::server
