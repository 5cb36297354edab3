// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that stay: which ranges they have, how long they last, and who may still read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/core/references/range_allocator.h"
#include "server/core/references/resident_arrays.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kUnit = RangeAllocator::kAlignment;

// The size of memory need not be a multiple of the alignment: the last range ends where the memory does.
TEST(RangeAllocatorTest, GivesOutTheLastBytesToo) {
  for (const std::uint64_t bytes : {kUnit - 1, kUnit, kUnit + 1, 2 * kUnit - 1, std::uint64_t{1000}}) {
    RangeAllocator ranges(bytes);
    EXPECT_FALSE(ranges.Take(bytes + 1).has_value()) << bytes;
    for (const std::uint64_t wanted : {bytes - 1, bytes}) {
      ASSERT_EQ(ranges.Take(wanted), 0) << bytes;
      ranges.Return(0, wanted);
      EXPECT_EQ(ranges.largest_free_bytes(), bytes);
    }
  }
  RangeAllocator ranges(3 * kUnit - 1);
  ASSERT_EQ(ranges.Take(1), 0);
  EXPECT_EQ(ranges.largest_free_bytes(), 2 * kUnit - 1);
  ASSERT_EQ(ranges.Take(2 * kUnit - 1), kUnit);
  EXPECT_EQ(ranges.free_bytes(), 0);
  EXPECT_FALSE(ranges.Take(0).has_value());
  ranges.Return(0, 1);
  EXPECT_FALSE(ranges.Take(kUnit + 1).has_value());
  ranges.Return(kUnit, 2 * kUnit - 1);
  EXPECT_EQ(ranges.largest_free_bytes(), 3 * kUnit - 1);
}

TEST(RangeAllocatorTest, GivesOutEveryByteOnceAndTakesItBack) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::minstd_rand random(seed);
    const std::uint64_t bytes = 100 * kUnit;
    RangeAllocator ranges(bytes);
    std::map<std::uint64_t, std::uint64_t> taken;
    for (int step = 0; step < 500; ++step) {
      if (!taken.empty() && random() % 2 == 0) {
        const auto range = std::next(taken.begin(), random() % taken.size());
        ranges.Return(range->first, range->second);
        taken.erase(range);
        continue;
      }
      const std::uint64_t wanted = random() % (20 * kUnit);
      const auto offset = ranges.Take(wanted);
      if (!offset.has_value()) {
        EXPECT_LT(ranges.largest_free_bytes(), std::max<std::uint64_t>(wanted, 1));
        continue;
      }
      EXPECT_EQ(*offset % kUnit, 0u);
      EXPECT_LE(*offset + wanted, bytes);
      const auto next = taken.lower_bound(*offset);
      if (next != taken.end()) {
        EXPECT_LE(*offset + std::max<std::uint64_t>(wanted, 1), next->first);
      }
      if (next != taken.begin()) {
        const auto before = std::prev(next);
        EXPECT_LE(before->first + std::max<std::uint64_t>(before->second, 1), *offset);
      }
      EXPECT_TRUE(taken.emplace(*offset, wanted).second);
    }
    for (const auto& [offset, size] : taken) ranges.Return(offset, size);
    EXPECT_EQ(ranges.free_bytes(), bytes);
    EXPECT_EQ(ranges.largest_free_bytes(), bytes) << "free ranges were not joined";
  }
}

class ResidentArraysTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 16 * kUnit;

  ResidentArraysTest() {
    arrays_.Open(backend_.AllocateOfEach(kBytes), {.owner_bytes = kBytes / 2,
                                                   .default_time_to_live = absl::Seconds(100),
                                                   .max_time_to_live = absl::Seconds(1000)});
  }

  // Made by a party with the owner's name, unless another one is named.
  static ResidentArrays::Request Of(std::uint64_t bytes, std::string owner = "me", int seconds = 0,
                                    const std::string& party = "") {
    return {.party = party.empty() ? owner : party,
            .owner = owner,
            .layout = {kernels::ElementType::kUint8, {}},
            .element_count = bytes,
            .byte_count = bytes,
            .time_to_live = absl::Seconds(seconds)};
  }
  // Takes room and a name at once.
  std::string Put(const ResidentArrays::Request& request) {
    const auto array = arrays_.Reserve(request, now_);
    EXPECT_TRUE(array.ok()) << array.status();
    return array.ok() ? arrays_.Publish(*array, now_) : "";
  }
  std::string ReasonOf(const absl::Status& status) { return kernels::ErrorReason(status); }

  FakeBackend backend_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  MemoryRegistry registry_;
  ResidentArrays arrays_{registry_};
};

TEST_F(ResidentArraysTest, RoomIsGivenBackWhenTheLastReaderGoes) {
  const std::string token = Put(Of(4 * kUnit));
  auto reader = registry_.Find(token, now_);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(arrays_.Delete(token, now_).ok());
  EXPECT_EQ(ReasonOf(registry_.Find(token, now_).status()), "UNKNOWN_MEMORY");
  EXPECT_EQ(arrays_.room().free_bytes, kBytes - 4 * kUnit) << "freed under a reader";
  *reader = nullptr;
  EXPECT_EQ(arrays_.room().free_bytes, kBytes);
  EXPECT_EQ(ReasonOf(arrays_.Delete(token, now_)), "UNKNOWN_MEMORY");
}

TEST_F(ResidentArraysTest, RoomOfAnArrayThatNeverCameIsGivenBack) {
  {
    const auto array = arrays_.Reserve(Of(kUnit), now_);
    ASSERT_TRUE(array.ok());
    EXPECT_EQ(arrays_.room().free_bytes, kBytes - kUnit);
  }
  EXPECT_EQ(arrays_.room().free_bytes, kBytes);
}

TEST_F(ResidentArraysTest, QuotaIsOfEachOwner) {
  Put(Of(kBytes / 2, "one"));
  EXPECT_EQ(ReasonOf(arrays_.Reserve(Of(1, "one"), now_).status()), "OWNER_QUOTA");
  EXPECT_EQ(ReasonOf(arrays_.Reserve(Of(kBytes / 2, "one"), now_).status()), "OWNER_QUOTA");
  const std::string token = Put(Of(kBytes / 2, "two"));
  EXPECT_EQ(ReasonOf(arrays_.Reserve(Of(1, "three"), now_).status()), "RESIDENT_FULL");
  EXPECT_TRUE(arrays_.Delete(token, now_).ok());
  Put(Of(kBytes / 2, "two"));
}

TEST_F(ResidentArraysTest, AQuotaIsOfWhatArraysTake) {
  constexpr std::uint64_t kQuota = 3 * kUnit + 1;
  ResidentArrays arrays(registry_);
  arrays.Open(backend_.AllocateOfEach(kBytes), {.owner_bytes = kQuota});
  EXPECT_TRUE(arrays.Reserve(Of(3 * kUnit), now_).ok());
  // It takes more than the owner has.
  EXPECT_EQ(ReasonOf(arrays.Reserve(Of(kQuota), now_).status()), "ARRAY_TOO_LARGE");
  {
    const auto nothing = arrays.Reserve(Of(0), now_);
    const auto one = arrays.Reserve(Of(1), now_);
    const auto unit = arrays.Reserve(Of(kUnit), now_);
    EXPECT_TRUE(nothing.ok() && one.ok() && unit.ok());
    EXPECT_EQ(arrays.room().free_bytes, kBytes - 3 * kUnit);
    EXPECT_EQ(ReasonOf(arrays.Reserve(Of(0), now_).status()), "OWNER_QUOTA");
  }
  EXPECT_TRUE(arrays.Reserve(Of(3 * kUnit), now_).ok()) << "what was taken was not given back";
}

TEST_F(ResidentArraysTest, AQuotaOfAllTheMemoryLeavesNothing) {
  constexpr std::uint64_t kAll = 16 * kUnit + 1;
  ResidentArrays arrays(registry_);
  arrays.Open(backend_.AllocateOfEach(kAll), {.owner_bytes = kAll});
  const auto first = arrays.Reserve(Of(8 * kUnit, "me", 0, "one"), now_);
  EXPECT_TRUE(arrays.Reserve(Of(kAll - 8 * kUnit, "me", 0, "two"), now_).ok());
}

// A client that is told to wait for room must be able to get it.
TEST_F(ResidentArraysTest, AnArrayThatNoWaitMakesRoomForIsTooLarge) {
  constexpr std::uint64_t kMost = kBytes / 8 * 7;
  const auto expect_most = [this](std::uint64_t quota, std::uint64_t most, const std::string& limit) {
    ResidentArrays arrays(registry_);
    arrays.Open(backend_.AllocateOfEach(kBytes), {.owner_bytes = quota});
    EXPECT_TRUE(arrays.Reserve(Of(most - 1), now_).ok()) << limit;
    EXPECT_TRUE(arrays.Reserve(Of(most), now_).ok()) << limit;
    const auto other = arrays.Reserve(Of(kUnit, "other"), now_);
    for (const std::uint64_t bytes : {most + 1, most + kUnit}) {
      const absl::Status refused = arrays.Reserve(Of(bytes), now_).status();
      EXPECT_EQ(ReasonOf(refused), "ARRAY_TOO_LARGE") << bytes;
      EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(limit));
    }
  };
  const std::string of_pool = absl::StrCat("one client may use at most ", kMost,
                                           " bytes, a multiple of 512 within seven eighths of "
                                           "resident_bytes = ",
                                           kBytes);
  expect_most(kBytes, kMost, of_pool);  // as without a quota
  expect_most(kMost + kUnit, kMost, of_pool);
  expect_most(kBytes / 2, kBytes / 2, absl::StrCat("resident_owner_bytes = ", kBytes / 2));
  expect_most(3 * kUnit + 1, 3 * kUnit,
              absl::StrCat("one owner may use at most ", 3 * kUnit,
                           " bytes, a multiple of 512 within resident_owner_bytes = ", 3 * kUnit + 1));
  EXPECT_EQ(ReasonOf(arrays_.Reserve(Of(kBytes + 1), now_).status()), "ARRAY_TOO_LARGE");
  // Arrays of others may go.
  const std::string one = Put(Of(kBytes / 2, "one"));
  const std::string two = Put(Of(kBytes / 4, "two"));
  EXPECT_EQ(ReasonOf(arrays_.Reserve(Of(kBytes / 2, "three"), now_).status()), "RESIDENT_FULL");
}

// Seven eighths of the memory need not be a multiple of 512 bytes.
TEST_F(ResidentArraysTest, ThatAnArrayCanNeverFitNamesTheBytesThatDo) {
  ResidentArrays arrays(registry_);
  arrays.Open(backend_.AllocateOfEach(10'000), {.owner_bytes = 10'000});
  const absl::Status refused = arrays.Reserve(Of(8750), now_).status();
  EXPECT_EQ(ReasonOf(refused), "ARRAY_TOO_LARGE");
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("at most 8704 bytes, a multiple of 512 within seven eighths of "
                                 "resident_bytes = 10000"));
  EXPECT_EQ(ReasonOf(arrays.Reserve(Of(8705), now_).status()), "ARRAY_TOO_LARGE");
  EXPECT_TRUE(arrays.Reserve(Of(8704), now_).ok());
}

// Anybody may make up names of owners.
TEST_F(ResidentArraysTest, OnePartyLeavesAnEighthWhateverItsOwners) {
  const auto greedy = [](std::uint64_t bytes, const std::string& owner) {
    return Of(bytes, owner, 0, "greedy");
  };
  const std::string first = Put(greedy(kBytes / 2, "one"));
  Put(greedy(kBytes / 4, "two"));
  const absl::Status refused = arrays_.Reserve(greedy(kBytes / 8 + 1, "three"), now_).status();
  EXPECT_EQ(ReasonOf(refused), "RESIDENT_FULL");
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("the last eighth is reserved for other clients"));
  const std::string last = Put(greedy(kBytes / 8, "three"));
  for (const std::uint64_t bytes : {std::uint64_t{1}, kBytes / 8}) {
    EXPECT_EQ(ReasonOf(arrays_.Reserve(greedy(bytes, "four"), now_).status()), "RESIDENT_FULL") << bytes;
  }
  Put(Of(kBytes / 8, "modest"));
  EXPECT_EQ(arrays_.room().free_bytes, 0u);
  // Room that was given back counts for nobody.
  EXPECT_TRUE(arrays_.Delete(first, now_).ok());
  EXPECT_TRUE(arrays_.Delete(last, now_).ok());
  Put(Of(kBytes / 2, "other"));
  Put(greedy(kBytes / 8, "three"));
}

TEST_F(ResidentArraysTest, EmptyArraysTakeRoomToo) {
  const std::string first = Put(Of(0, "one"));
  const std::string second = Put(Of(0, "one"));
  EXPECT_EQ(arrays_.room().free_bytes, kBytes - 2 * kUnit);
  EXPECT_TRUE(arrays_.Delete(first, now_).ok());
  EXPECT_TRUE(arrays_.Delete(second, now_).ok());
  EXPECT_EQ(arrays_.room().free_bytes, kBytes);
  // As many as the room has units for, except for the last eighth.
  const auto greedy = [](std::uint64_t i) { return Of(i % 2, i < 8 ? "one" : "two", 0, "greedy"); };
  for (std::uint64_t i = 0; i < kBytes / 8 * 7 / kUnit; ++i) Put(greedy(i));
  EXPECT_EQ(ReasonOf(arrays_.Reserve(greedy(14), now_).status()), "RESIDENT_FULL");
}

TEST_F(ResidentArraysTest, NoMoreThanTheServerKeeps) {
  constexpr std::size_t kMost = ResidentArrays::kMaxArrays;
  MemoryRegistry registry;
  ResidentArrays arrays(registry);
  arrays.Open(backend_.AllocateOfEach((kMost + 1) * kUnit), {.owner_bytes = (kMost + 1) * kUnit});
  std::vector<std::shared_ptr<const NamedMemory>> kept;
  const auto fill = [&](const std::string& party, std::size_t size) {
    while (kept.size() < size) {
      auto array = arrays.Reserve(Of(1, party), now_);
      ASSERT_TRUE(array.ok()) << array.status();
      kept.push_back(*std::move(array));
    }
  };
  fill("greedy", kMost - kMost / 8);
  EXPECT_EQ(ReasonOf(arrays.Reserve(Of(1, "greedy"), now_).status()), "RESIDENT_FULL");
  fill("modest", kMost);
  const absl::Status refused = arrays.Reserve(Of(1), now_).status();
  EXPECT_EQ(ReasonOf(refused), "RESIDENT_FULL");
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("max_arrays = 4096"));
  kept.pop_back();
  EXPECT_TRUE(arrays.Reserve(Of(1), now_).ok());
}

TEST_F(ResidentArraysTest, ExpiredArraysAreNotFound) {
  const std::string token = Put(Of(kUnit, "me", 10));
  now_ += absl::Seconds(10);
  EXPECT_EQ(ReasonOf(registry_.Find(token, now_).status()), "UNKNOWN_MEMORY");
  EXPECT_EQ(ReasonOf(arrays_.Find(token, now_).status()), "UNKNOWN_MEMORY");
  // The next sweep is up to a second away: a client that deletes it meanwhile frees its room, and is told the
  // same.
  EXPECT_EQ(ReasonOf(arrays_.Delete(token, now_)), "UNKNOWN_MEMORY");
  EXPECT_EQ(arrays_.room().free_bytes, kBytes);
}

TEST_F(ResidentArraysTest, ExpireByTheirLastUse) {
  const std::string used = Put(Of(kUnit, "me", 10));
  const std::string unused = Put(Of(kUnit, "me", 10));
  const std::string by_default = Put(Of(kUnit));
  now_ += absl::Seconds(9);
  (*registry_.Find(used, now_))->Touch(now_);
  now_ += absl::Seconds(2);
  arrays_.Expire(now_);
  EXPECT_FALSE(registry_.Find(unused, now_).ok());
  EXPECT_TRUE(registry_.Find(used, now_).ok());
  (*registry_.Find(by_default, now_))->Touch(now_);
  now_ += absl::Seconds(101);
  arrays_.Expire(now_);
  EXPECT_EQ(arrays_.room().free_bytes, kBytes);
}

TEST_F(ResidentArraysTest, TheTimeToLiveBeginsWhenTheLastUseEnds) {
  const std::string token = Put(Of(kUnit, "me", 10));
  const Clock clock = [this] { return now_; };
  std::shared_ptr<const NamedMemory> use = NamedMemory::Use(*registry_.Find(token, now_), clock);
  now_ += absl::Seconds(60);
  arrays_.Expire(now_);
  EXPECT_TRUE(registry_.Find(token, now_).ok()) << "it is read";
  use = nullptr;
  now_ += absl::Seconds(9);
  arrays_.Expire(now_);
  EXPECT_TRUE(registry_.Find(token, now_).ok());
  now_ += absl::Seconds(1);
  EXPECT_FALSE(registry_.Find(token, now_).ok());
}

TEST_F(ResidentArraysTest, ExpiredArraysMakeRoomAtOnce) {
  Put(Of(kBytes / 2, "one", 10));
  Put(Of(kBytes / 2, "two", 10));
  now_ += absl::Seconds(11);
  Put(Of(kBytes / 2, "one"));
}

TEST_F(ResidentArraysTest, TimeToLiveHasALimit) {
  for (const int seconds : {999, 1000, 1001, 1'000'000}) {
    const std::string owner = std::to_string(seconds);
    Put(Of(kUnit, owner, seconds));
    ASSERT_EQ(arrays_.List(owner, now_).size(), 1u);
    EXPECT_EQ(arrays_.List(owner, now_)[0].expires_in, absl::Seconds(std::min(seconds, 1000)));
  }
}

TEST_F(ResidentArraysTest, ListsByOwnerOldestFirst) {
  Put(Of(1, "one"));
  now_ += absl::Seconds(5);
  Put(Of(2, "two"));
  Put(Of(3, "one"));
  EXPECT_EQ(arrays_.List("", now_).size(), 3u);
  const auto infos = arrays_.List("one", now_);
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].request.byte_count, 1u);
  EXPECT_EQ(infos[0].age, absl::Seconds(5));
  EXPECT_LT(infos[0].id, infos[1].id);
}

TEST(ResidentArraysWithoutRoomTest, SayThatThereAreNone) {
  MemoryRegistry registry;
  ResidentArrays arrays(registry);
  const absl::Status status = arrays.Reserve({}, absl::UnixEpoch()).status();
  EXPECT_EQ(kernels::ErrorReason(status), "NO_RESIDENT_ARRAYS");
  EXPECT_EQ(arrays.room().bytes, 0u);
}

TEST(MemoryRegistryTest, TokensAreNeverAlike) {
  std::map<std::string, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[RandomToken()];
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(seen.begin()->first.size(), kTokenBytes);
}

}  // namespace
}  // namespace warpfold::server
