// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a slot is told of the party for which it works.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "server/core/party_tags.h"
#include "server/core/shard.h"
#include "server/core/slot_share.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

const FakeSlot& TakeFor(SlotShare& share, const std::string& party) {
  CountingHolder holder(party);
  kernels::Slot* const slot = share.Take(holder);
  EXPECT_NE(slot, nullptr);
  share.Return(slot);
  return static_cast<const FakeSlot&>(*slot);
}

// By their slots' groups a backend tells parties apart that queue for its threads, of whatever shard.
TEST(SlotSharePartiesTest, ASlotWorksForThePartyThatHasIt) {
  FakeBackend backend(2);
  FakeBackend others(2);
  SlotShare share(SlotsOf(backend));
  SlotShare other_share(SlotsOf(others));
  const std::uint64_t greedy_group = TakeFor(share, "greedy").group();
  EXPECT_NE(greedy_group, TakeFor(share, "modest").group());
  EXPECT_EQ(greedy_group, TakeFor(share, "greedy").group());
  EXPECT_EQ(greedy_group, TakeFor(other_share, "greedy").group());
  EXPECT_FALSE(TakeFor(share, "greedy").yields()) << "a share without tags";
}

TEST(SlotSharePartiesTest, WhoHasHadMoreThanOthersYieldsToThem) {
  FakeBackend backend(2);
  Service service(backend, Limits{}, [] { return absl::UnixEpoch(); });
  Shard shard(service, SlotsOf(backend));
  PartyTags::Tag& greedy = service.tags.Join("greedy");
  for (int i = 0; i < 3; ++i) service.tags.Charge(greedy, PartyTags::kFarBehind);
  EXPECT_FALSE(TakeFor(shard.slots(), "greedy").yields()) << "nobody competes";
  service.tags.Join("modest");
  EXPECT_TRUE(TakeFor(shard.slots(), "greedy").yields());
  EXPECT_FALSE(TakeFor(shard.slots(), "modest").yields()) << "it is far behind";
  EXPECT_FALSE(TakeFor(shard.slots(), "").yields()) << "who has no calls that take turns";
}

}  // namespace
}  // namespace warpfold::server
