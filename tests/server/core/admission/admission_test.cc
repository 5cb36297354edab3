// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Admission lets calls in: these tests show how many places there are for each kind of call, and how many of
// these one party gets.
#include "server/core/admission/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "kernels/error.h"
#include "server/core/admission/party.h"

namespace warpfold::server {
namespace {

const absl::Time kStart = absl::UnixEpoch();

TEST(AdmissionTest, AdmitsUpToTheLimit) {
  Admission admission(2);
  auto first = admission.Enter();
  ASSERT_TRUE(first.ok());
  {
    const auto second = admission.Enter();
    ASSERT_TRUE(second.ok());
    const auto third = admission.Enter();
    EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(kernels::ErrorReason(third.status()), "TOO_MANY_REDUCTIONS");
    EXPECT_EQ(admission.in_progress(), 2);
  }
  EXPECT_TRUE(admission.Enter().ok());
  EXPECT_FALSE(admission.WaitUntilEmpty(absl::ZeroDuration()));
}

TEST(AdmissionTest, EachKindHasPlacesOfItsOwn) {
  using Kind = Admission::Kind;
  Admission admission(1);
  std::vector<Admission::Ticket> tickets;
  absl::Status refused;
  const auto fill = [&](Kind kind, const std::string& reason) {
    const std::size_t before = tickets.size();
    absl::StatusOr<Admission::Ticket> ticket = admission.Enter(kind);
    for (; ticket.ok(); ticket = admission.Enter(kind)) tickets.push_back(*std::move(ticket));
    EXPECT_EQ(ticket.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(kernels::ErrorReason(ticket.status()), reason);
    refused = ticket.status();
    return tickets.size() - before;
  };
  EXPECT_EQ(fill(Kind::kReduction, "TOO_MANY_REDUCTIONS"), 1u);
  EXPECT_EQ(fill(Kind::kMerge, "TOO_MANY_REDUCTIONS"), 1u) << "merges are admitted when reductions are full";
  EXPECT_EQ(fill(Kind::kSmall, "TOO_MANY_CALLS"), 56u) << "the last eighth is for other peers";
  EXPECT_EQ(fill(Kind::kWatch, "TOO_MANY_CALLS"), 896u);
  EXPECT_EQ(fill(Kind::kCheck, "TOO_MANY_CALLS"), 56u);
  EXPECT_EQ(refused.message(),
            "the server is full: probes = 64 (the last eighth is reserved for other clients)");
  EXPECT_THAT(kernels::ErrorDetails(refused),
              testing::UnorderedElementsAre(testing::Pair("limit", "probes"), testing::Pair("value", "64"),
                                            testing::Pair("retry_ms", "100")));
  EXPECT_EQ(admission.in_progress(), 2);
  tickets.erase(tickets.begin(), tickets.begin() + 2);
  EXPECT_EQ(admission.in_progress(), 0);
  EXPECT_TRUE(admission.IsQuiet(kStart)) << "calls about the server do not hold it up";
  EXPECT_FALSE(admission.Enter(Kind::kWatch).ok());
  tickets.clear();
  for (const Kind kind : {Kind::kReduction, Kind::kMerge, Kind::kSmall, Kind::kWatch, Kind::kCheck}) {
    EXPECT_TRUE(admission.Enter(kind).ok());
  }
}

TEST(AdmissionTest, NobodyGetsAllPlaces) {
  using Kind = Admission::Kind;
  Admission admission(64);
  std::vector<Admission::Ticket> tickets;
  const auto fill = [&](Kind kind, const std::string& peer) {
    int count = 0;
    for (auto ticket = admission.Enter(kind, {.party = peer}); ticket.ok();
         ticket = admission.Enter(kind, {.party = peer})) {
      tickets.push_back(*std::move(ticket));
      ++count;
    }
    return count;
  };
  EXPECT_EQ(fill(Kind::kReduction, "greedy"), 56);
  EXPECT_EQ(fill(Kind::kArray, "greedy"), 0);
  EXPECT_EQ(fill(Kind::kReduction, "modest"), 4) << "what is left is for small arrays";
  EXPECT_EQ(fill(Kind::kArray, "other"), 4);
  EXPECT_EQ(fill(Kind::kMerge, "greedy"), 56) << "merges have places of their own";
  EXPECT_EQ(fill(Kind::kMerge, "modest"), 8);
  tickets.clear();
  EXPECT_EQ(admission.in_progress(), 0);
  EXPECT_EQ(fill(Kind::kReduction, "modest"), 56);
}

TEST(AdmissionTest, PlacesAreShortWhenTheLastEighthIsUsed) {
  using Kind = Admission::Kind;
  Admission admission(16);
  std::vector<Admission::Ticket> tickets;
  for (const Kind kind : {Kind::kReduction, Kind::kMerge}) {
    for (int i = 0; i < 14; ++i) {
      EXPECT_FALSE(admission.IsNearlyFull(kind)) << i;
      tickets.push_back(*admission.Enter(kind));
    }
    EXPECT_TRUE(admission.IsNearlyFull(kind));
  }
  EXPECT_TRUE(admission.IsNearlyFull(Kind::kArray)) << "which share those of reductions";
  EXPECT_FALSE(admission.IsNearlyFull(Kind::kSmall));
  tickets.clear();
  EXPECT_FALSE(admission.IsNearlyFull(Kind::kArray));
}

TEST(AdmissionTest, ATicketIsGivenBackOnce) {
  Admission admission(2);
  Admission::Ticket first = *admission.Enter();
  Admission::Ticket moved = std::move(first);
  EXPECT_EQ(admission.in_progress(), 1);
  first = *admission.Enter(Admission::Kind::kMerge);
  EXPECT_EQ(admission.in_progress(), 2);
  moved = {};
  EXPECT_EQ(admission.in_progress(), 1);
  moved = std::move(first);
  first = {};
  EXPECT_EQ(admission.in_progress(), 1);
  EXPECT_TRUE(admission.Enter().ok());
}

TEST(AdmissionTest, OnceClosedItOnlyEmpties) {
  Admission admission(2);
  auto ticket = admission.Enter();
  ASSERT_TRUE(ticket.ok());
  admission.Close(absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter(Admission::Kind::kMerge).status(), absl::UnavailableError("draining"));
  EXPECT_TRUE(admission.Enter(Admission::Kind::kSmall).ok());
  EXPECT_TRUE(admission.Enter(Admission::Kind::kWatch).ok());
  EXPECT_FALSE(admission.WaitUntilEmpty(absl::ZeroDuration()));
  std::thread leaver([held = std::make_unique<Admission::Ticket>(*std::move(ticket))]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that there is something to wait for
    held.reset();
  });
  admission.WaitUntilEmpty();
  EXPECT_EQ(admission.in_progress(), 0);
  leaver.join();
}

TEST(AdmissionTest, ClosedToReductionsItAdmitsMerges) {
  Admission admission(2);
  admission.CloseToReductions(absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_TRUE(admission.IsQuiet(kStart));
  {
    const auto first = admission.Enter(Admission::Kind::kMerge);
    const auto second = admission.Enter(Admission::Kind::kMerge);
    EXPECT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(kernels::ErrorReason(admission.Enter(Admission::Kind::kMerge).status()), "TOO_MANY_REDUCTIONS");
    EXPECT_FALSE(admission.IsQuiet(kStart));
  }
  EXPECT_TRUE(admission.IsQuiet(kStart));
  admission.Close(absl::UnavailableError("down"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter(Admission::Kind::kMerge).status(), absl::UnavailableError("down"));
}

TEST(AdmissionTest, ClosedToReductionsItAdmitsPartsOfWhatHasBegun) {
  Admission admission(2);
  { const auto part = admission.Enter(Admission::Kind::kReduction, {.array = "an array"}); }
  admission.CloseToReductions(absl::UnavailableError("draining"));
  EXPECT_TRUE(admission.Enter(Admission::Kind::kReduction, {.array = "an array"}).ok());
  for (const char* unknown : {"", "another"}) {
    EXPECT_EQ(admission.Enter(Admission::Kind::kReduction, {.array = unknown}).status(),
              absl::UnavailableError("draining"));
  }
  admission.Close(absl::UnavailableError("down"));
  EXPECT_FALSE(admission.Enter(Admission::Kind::kReduction, {.array = "an array"}).ok());
}

TEST(AdmissionTest, NamesOfArraysAreForgottenBeforeTheyAreTooMany) {
  Admission admission(1);
  const auto enter = [&](int i) {
    return admission.Enter(Admission::Kind::kReduction, {.array = std::to_string(i)}).ok();
  };
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(enter(i));
  admission.CloseToReductions(absl::UnavailableError("draining"));
  EXPECT_FALSE(enter(0));
  EXPECT_TRUE(enter(10'000 - 4096));
  EXPECT_TRUE(enter(9'999));
}

TEST(AdmissionTest, NothingFollowsFromCallsAboutTheServer) {
  using Kind = Admission::Kind;
  Admission admission(2);
  for (const Kind kind : {Kind::kSmall, Kind::kWatch, Kind::kCheck}) {
    Admission::Ticket ticket = *admission.Enter(kind);
    ticket.MarkAsPart();
    EXPECT_FALSE(admission.AwaitsCalls(kStart));
  }
  for (const Kind kind : {Kind::kReduction, Kind::kArray, Kind::kMerge}) {
    Admission::Ticket ticket = *admission.Enter(kind);
    ticket.MarkAsPart();
    EXPECT_TRUE(admission.AwaitsCalls(kStart));
  }
  EXPECT_FALSE(admission.AwaitsCalls(kStart));
}

TEST(AdmissionTest, AStateGivenOutIsWaitedForAMoment) {
  Admission admission(2);
  admission.StateGivenOut(kStart);
  EXPECT_FALSE(admission.IsQuiet(kStart + kMergeWait - absl::Nanoseconds(1)));
  EXPECT_TRUE(admission.IsQuiet(kStart + kMergeWait));
}

TEST(AdmissionTest, NeverMoreThanTheLimitAtOnce) {
  Admission admission(3);
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto ticket = admission.Enter();
        if (!ticket.ok()) continue;
        EXPECT_LE(++inside, 3);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission.in_progress(), 0);
}

TEST(PartyTest, IsAnIdentityOrAHost) {
  EXPECT_EQ(PartyOf("dns:a.example", "ipv4:192.0.2.1:50051"), "dns:a.example");
  EXPECT_EQ(PartyOf("anonymous", "ipv4:192.0.2.1:50051"), "ipv4:192.0.2.1");
  EXPECT_EQ(PartyOf("anonymous", "inproc"), "inproc");
}

TEST(PartyTest, AllLoopbackAddressesAreOneHost) {
  for (const char* const peer : {"ipv4:127.0.0.1:1", "ipv4:127.9.8.7:1", "ipv6:%5B::1%5D:1", "ipv6:[::1]:1",
                                 "ipv6:%5B::ffff:127.0.0.3%5D:2"}) {
    EXPECT_EQ(PartyOf("anonymous", peer), "ipv4:127.0.0.1") << peer;
  }
  EXPECT_EQ(PartyOf("anonymous", "ipv4:128.0.0.1:1"), "ipv4:128.0.0.1");
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5B::2%5D:1"), "ipv6:::");
  EXPECT_EQ(PartyOf("anonymous", "ipv4:127.0.0:1"), "ipv4:127.0.0") << "which is no address";
}

TEST(PartyTest, AHostHasAllAddressesOfItsIpv6Network) {
  const std::string host = "ipv6:2001:db8:0:1::";
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5B2001:db8:0:1::7%5D:50051"), host);
  EXPECT_EQ(PartyOf("anonymous", "ipv6:[2001:db8:0:1:ffff::1]:1"), host);
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5Bfe80::1%25eth0%5D:1"), "ipv6:fe80::");
  EXPECT_NE(PartyOf("anonymous", "ipv6:%5B2001:db8:0:2::7%5D:50051"), host);
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5B::ffff:192.0.2.1%5D:2"), "ipv4:192.0.2.1");
  EXPECT_EQ(PartyOf("anonymous", "ipv6:nonsense:1"), "ipv6:nonsense");
}

}  // namespace
}  // namespace warpfold::server
