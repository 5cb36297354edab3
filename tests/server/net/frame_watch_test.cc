// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/frame_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "tests/server/net/frame_watch_fixture.h"

namespace warpfold::server {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 10s

TEST_F(FrameWatchTest, ServesCallsOfAnySize) {
  for (int call = 0; call < 20'000; ++call) {
    ASSERT_TRUE(Pass(NewCall(200) + Frame(kData, 100) + Frame(kData, 0, kEndStream)));
    ASSERT_TRUE(Pass(Frame(kPing, 8) + Frame(kWindowUpdate, 4) + Frame(kWindowUpdate, 4)));
  }
  ASSERT_TRUE(Pass(NewCall(200)));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(Pass(Frame(kData, 16'384) + Frame(kPing, 8)));
  // As many calls as may be open at once, which then end, and frames whose length needs each of its three
  // bytes.
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 99; ++i) ASSERT_TRUE(Pass(NewCall(200)));
    for (int i = 0; i < 99; ++i) ASSERT_TRUE(Pass(Frame(kData, 0, kEndStream)));
  }
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Pass(Frame(kData, 0x010203)));
  EXPECT_EQ(Count(Frame(kPing, 8), 2000), 1004) << "and the next head is found";
}

TEST_F(FrameWatchTest, CallsMayBeTakenBack) {
  for (int second = 0; second < 100; ++second) {
    ASSERT_EQ(CountCalls(100, Frame(kResetStream, 4), 500), 500);
    now_ += 1s;
  }
  now_ += 1h;
  EXPECT_EQ(CountCalls(100, Frame(kResetStream, 4), 2000), 1000);
}

TEST_F(FrameWatchTest, FramesThatCarryNothingAreFew) {
  for (const int type : {int{kData}, int{kSettings}, kPing, kUnknown}) {
    now_ += 1h;
    Reconnect();
    // In addition to those that a call's frame has made free, of which the acknowledgement was one.
    EXPECT_EQ(Count(Frame(type, type == kData ? 0 : 8), 2000), 1003) << type;
  }
}

// gRPC reads on for as long as they come, without a window that would hold them back.
TEST_F(FrameWatchTest, ACallEndsOnce) {
  const std::string last_data = Frame(kData, 0, kEndStream);
  const std::string trailers = Frame(kHeaders, 1, kEndStream);
  for (const std::string& end : {last_data, Frame(kData, 1, kEndStream), trailers}) {
    // Its end, and those that the call's frames have made free, of which the acknowledgement was one unless
    // the end has made others free.
    const int free = end == trailers ? 3 : 4;
    Reconnect();
    EXPECT_EQ(Count(end, 2000), 1 + free + 1000);
    Reconnect();
    // A call whose headers are its end has no other.
    ASSERT_TRUE(Pass(end + NewCall(1, kEndStream)));
    EXPECT_EQ(Count(end, 2000), 4 + 1000);
    Reconnect();
    ASSERT_TRUE(Pass(end + NewCall(1)));
    EXPECT_EQ(Count(end, 2000), 1 + 4 + 1000);
    Reconnect();
    EXPECT_EQ(Count(end + Frame(kSettings, 0) + Frame(kSettings, 0), 2000), (1 + free + 1000) / 3)
        << "ends that nobody waits for make nothing free";
  }
  Reconnect();
  for (int call = 0; call < 5000; ++call) ASSERT_TRUE(Pass(NewCall(1) + Frame(kData, 9) + trailers));
}

TEST_F(FrameWatchTest, TrailersInSeveralFramesMakeNothingFree) {
  ASSERT_TRUE(Pass(Frame(kData, 1, kEndStream)));
  EXPECT_EQ(Count(Frame(kHeaders, 1, kEndStream) + Frame(kContinuation, 0), 2000), 4 + 1000);
  Reconnect();
  ASSERT_TRUE(Pass(NewCall(1)));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Count(Frame(kPing, 8), 4), 4);
    EXPECT_TRUE(Pass(OfStream(stream_, Frame(kContinuation, 1))));
  }
  EXPECT_EQ(Count(Frame(kPing, 8), 2000), 1004);
}

// Calls that the server has ended, and of which the client has sent no end, save up few ends.
TEST_F(FrameWatchTest, EndsAreNotSavedUp) {
  EXPECT_EQ(CountCalls(1, "", 5000), 5000);
  EXPECT_EQ(Count(Frame(kData, 0, kEndStream), 5000), 100 + 4 + 1000);
}

TEST_F(FrameWatchTest, WhoDoesNotAcknowledgeSettingsMayBeginFewCalls) {
  Reconnect(/*acknowledges=*/false);
  // The client's own settings do not count as an acknowledgement.
  EXPECT_TRUE(Pass(Frame(kSettings, 6)));
  EXPECT_EQ(CountCalls(100, "", 2000), 100);
  Reconnect(/*acknowledges=*/false);
  EXPECT_EQ(CountCalls(100, "", 99), 99);
  EXPECT_TRUE(Pass(Frame(kSettings, 0, kAck)));
  EXPECT_EQ(CountCalls(100, "", 100'000), 100'000);
}

// Otherwise a client that guesses what the server will say would be free of limits that gRPC does not know
// yet.
TEST_F(FrameWatchTest, SettingsAreNotAcknowledgedBeforeTheyAreSent) {
  watch_.emplace();
  EXPECT_TRUE(Pass(kPreface + Frame(kSettings, 6)));
  const std::string early = Frame(kSettings, 0, kAck);
  EXPECT_STREQ(watch_->Take(std::as_bytes(std::span(early)), now_),
               "an acknowledgement of settings that it has not got");
  watch_.emplace();
  EXPECT_TRUE(Pass(kPreface + Frame(kSettings, 6)));
  watch_->ServerSpeaks();
  EXPECT_TRUE(Pass(early));
}

TEST_F(FrameWatchTest, CallsAreCountedByTheirStreams) {
  watch_.emplace();
  EXPECT_TRUE(Pass(kPreface));
  EXPECT_EQ(watch_->calls(), 0u);
  EXPECT_TRUE(Pass(Frame(kHeaders, 10) + Frame(kData, 10)));
  EXPECT_EQ(watch_->calls(), 1u);
  EXPECT_TRUE(Pass(Frame(kHeaders, 10, kEndStream)));
  EXPECT_EQ(watch_->calls(), 1u) << "trailers of the same stream";
  std::string later = Frame(kHeaders, 10);
  later[8] = '\3';
  EXPECT_TRUE(Pass(later + Frame(kHeaders, 10)));
  EXPECT_EQ(watch_->calls(), 2u);
}

TEST_F(FrameWatchTest, SettingsAreAcknowledgedInTime) {
  for (const auto wait : {10'000ms, 10'001ms}) {
    Reconnect(/*acknowledges=*/false);
    now_ += 1h;
    EXPECT_TRUE(Pass(Frame(kHeaders, 100))) << "it reads nothing before it calls";
    now_ += wait;
    EXPECT_EQ(Pass(Frame(kHeaders, 100)), wait == 10'000ms);
  }
  Reconnect();
  now_ += 24h;
  EXPECT_TRUE(Pass(Frame(kHeaders, 100)));
}

TEST_F(FrameWatchTest, SmallFramesAreCountedBeyondThoseOfSmallMessages) {
  for (int call = 0; call < 100; ++call) {
    std::string headers = Frame(kHeaders, 100);
    headers[8] = static_cast<char>(3 + 2 * call);  // a stream of its own
    ASSERT_TRUE(Pass(headers + Frame(kData, 60) + Frame(kData, 1000) + Frame(kData, 5, kEndStream)));
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Pass(Frame(kData, FrameWatch::kSmallFrame) + Frame(kData, 1)));
  EXPECT_EQ(watch_->small_frames(), 0u);
  ASSERT_TRUE(Pass(Frame(kData, FrameWatch::kSmallFrame) + Frame(kData, FrameWatch::kSmallFrame)));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Pass(Frame(kData, FrameWatch::kSmallFrame - 1)));
  EXPECT_EQ(watch_->small_frames(), 4u) << "what is free is not saved up";
}

// gRPC ignores headers of streams that are older than the newest one. As reduction.proto promises, each chunk
// is a message in its own frame.
TEST_F(FrameWatchTest, ChunksOf128BytesMayComeAsFastAsTheyCan) {
  ASSERT_TRUE(Pass(Frame(kHeaders, 0)));
  for (int i = 0; i < 200'000; ++i) ASSERT_TRUE(Pass(Frame(kData, 5 + 128)));
  EXPECT_EQ(watch_->small_frames(), 0u);
}

TEST_F(FrameWatchTest, HeadersThatBeginNoCallMakeNoSmallFrameFree) {
  ASSERT_TRUE(Pass(Frame(kHeaders, 1) + Frame(kData, 1) + Frame(kData, 1)));
  const std::uint64_t before = watch_->small_frames();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Pass(Frame(kHeaders, 1) + Frame(kData, 1)));
  EXPECT_EQ(watch_->small_frames(), before + 100);
}

// A client that reads 3 GB of results a second opens the window for each 32 KiB.
TEST_F(FrameWatchTest, WindowsMayBeOpenedFarButNotWithoutEnd) {
  for (int second = 0; second < 3; ++second) {
    ASSERT_EQ(Count(Frame(kWindowUpdate, 4), 100'000), 100'000);
    now_ += 1s;
  }
  EXPECT_EQ(Count(Frame(kWindowUpdate, 4), 200'000), 100'000);
}

TEST_F(FrameWatchTest, WhatGoesWithACallIsFree) {
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Pass(Frame(kData, 1)));
    ASSERT_EQ(Count(Frame(kPing, 8), 4), 4);
  }
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Pass(NewCall(1)));
    ASSERT_EQ(Count(Frame(kPing, 8), 4), 4);
  }
  EXPECT_TRUE(Pass(Frame(kData, 1)));
  EXPECT_EQ(Count(Frame(kPing, 8), 2000), 1004);
}

// A call that waits for days, with a ping every ten seconds.
TEST_F(FrameWatchTest, KeepalivePingsAreFine) {
  for (int i = 0; i < 50'000; ++i) {
    ASSERT_TRUE(Pass(Frame(kPing, 8)));
    now_ += 10s;
  }
}

TEST_F(FrameWatchTest, ComplaintsSayWhat) {
  const auto complaint = [this](const std::string& frame) {
    Reconnect();
    const char* first = nullptr;
    for (int i = 0; i < 5000 && first == nullptr; ++i) {
      first = watch_->Take(std::as_bytes(std::span(frame)), now_);
    }
    return std::string(first == nullptr ? "" : first);
  };
  EXPECT_EQ(complaint(Frame(kContinuation, 100)), "headers without an end");
  EXPECT_EQ(complaint(Frame(kResetStream, 4)), "calls that are taken back");
  EXPECT_EQ(complaint(Frame(kPing, 8)), "frames that carry nothing");
  EXPECT_EQ(complaint(Call(3, 65)), "calls of very many header fields");
  Reconnect(/*acknowledges=*/false);
  EXPECT_EQ(Count(Frame(kHeaders, 0), 100), 100);
  const std::string call = Frame(kHeaders, 0);
  EXPECT_STREQ(watch_->Take(std::as_bytes(std::span(call)), now_),
               "calls, and does not acknowledge settings");
}

// However the bytes are cut, the same frame is the last one.
TEST_F(FrameWatchTest, CutsDoNotMatter) {
  std::string bytes = kPreface + Frame(kSettings, 0, kAck);
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same on every run
  for (int i = 0; i < 800; ++i) {
    bytes += Call(1, random() % 9) + Frame(kHeaders, random() % 300) + Frame(kData, random() % 3) +
             Frame(kResetStream, 4);
  }
  const std::size_t good = bytes.size();
  for (int i = 0; i < 300; ++i) bytes += Frame(kResetStream, 4);
  for (const std::size_t piece : {1, 2, 7, 8, 9, 10, 100, 4096, 1 << 20}) {
    FrameWatch watch;
    watch.ServerSpeaks();
    std::size_t at = 0;
    const char* complaint = nullptr;
    for (; at < bytes.size() && complaint == nullptr; at += piece) {
      complaint =
          watch.Take(std::as_bytes(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at))), now_);
    }
    ASSERT_NE(complaint, nullptr) << piece;
    // The 201st reset after the good ones: its head has been seen.
    EXPECT_GE(at, good + 200 * 13 + 9) << piece;
    EXPECT_LT(at, good + 200 * 13 + 9 + piece) << piece;
  }
}

}  // namespace
}  // namespace warpfold::server
