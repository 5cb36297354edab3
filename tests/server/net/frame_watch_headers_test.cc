// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "server/net/frame_watch.h"
#include "tests/server/net/frame_watch_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(FrameWatchTest, HeadersHaveAnEnd) {
  constexpr std::size_t kMost = FrameWatch::kMaxHeaderBytes - FrameWatch::kFrameCost;
  EXPECT_TRUE(Pass(OfStream(3, Frame(kHeaders, kMost - 1))));
  EXPECT_TRUE(Pass(OfStream(5, Frame(kHeaders, kMost))));
  EXPECT_FALSE(Pass(OfStream(7, Frame(kHeaders, kMost + 1))));
}

// gRPC checks the size of each frame, not that of the block.
TEST_F(FrameWatchTest, HeadersOfSeveralFramesAreShorter) {
  constexpr std::size_t kMost = FrameWatch::kMaxContinuedBytes - 2 * FrameWatch::kFrameCost;
  EXPECT_TRUE(Pass(OfStream(3, Frame(kHeaders, kMost - 100)) + OfStream(3, Frame(kContinuation, 100))));
  EXPECT_FALSE(Pass(OfStream(5, Frame(kHeaders, kMost - 100)) + OfStream(5, Frame(kContinuation, 101))));
}

TEST_F(FrameWatchTest, TrailersAreShort) {
  constexpr std::size_t kMost = FrameWatch::kMaxTrailerBytes - FrameWatch::kFrameCost;
  const std::string call = OfStream(3, Frame(kHeaders, 9000));
  EXPECT_TRUE(Pass(call + OfStream(3, Frame(kHeaders, kMost))));
  EXPECT_FALSE(Pass(OfStream(3, Frame(kContinuation, 0))));
  Reconnect();
  EXPECT_FALSE(Pass(call + OfStream(3, Frame(kHeaders, kMost + 1))));
}

TEST_F(FrameWatchTest, EmptyContinuationsCountToo) {
  EXPECT_TRUE(Pass(OfStream(3, Frame(kHeaders, 0))));
  EXPECT_EQ(Count(Frame(kContinuation, 0), 2000), (10 << 10) / 64 - 1);
}

// gRPC ignores such a stream, and would go on with calls of lower streams.
TEST_F(FrameWatchTest, AStreamOfAnEvenNumberBeginsNoCall) {
  for (const char stream : {0, 2, 126}) {
    Reconnect();
    EXPECT_FALSE(Pass(OfStream(stream, Frame(kHeaders, 1)))) << static_cast<int>(stream);
  }
}

TEST_F(FrameWatchTest, APriorityIsInTheFirstFrame) {
  constexpr int kPriority = 0x20;
  const auto with_priority = [](char stream, std::size_t fields) {
    return OfStream(stream, Frame(kHeaders, 5 + fields, kPriority)).substr(0, 9) + "12345" +
           std::string(fields, '\x82');
  };
  EXPECT_TRUE(Pass(with_priority(3, 64)));
  EXPECT_FALSE(Pass(with_priority(5, 65)));
  for (const std::size_t length : {0, 3, 4}) {
    Reconnect();
    EXPECT_FALSE(Pass(OfStream(3, Frame(kHeaders, length, kPriority)))) << length;
  }
}

TEST_F(FrameWatchTest, ACallHasSoManyFields) {
  EXPECT_TRUE(Pass(Call(3, 64) + Call(5, 64)));
  EXPECT_FALSE(Pass(Call(7, 65)));
  Reconnect();
  EXPECT_TRUE(Pass(Call(3, 60) + Call(3, 4, kContinuation)));
  EXPECT_FALSE(Pass(Call(3, 1, kContinuation)));
}

TEST_F(FrameWatchTest, TrailersHaveFewFields) {
  EXPECT_TRUE(Pass(Call(3, 64) + Call(5, 64) + Call(3, 8)));
  EXPECT_FALSE(Pass(Call(5, 9)));
}

// A call costs according to its fields, and before the settings are acknowledged there may be 100.
TEST_F(FrameWatchTest, WhoDoesNotAcknowledgeSettingsMaySendFewFields) {
  Reconnect(/*acknowledges=*/false);
  for (int call = 0; call < 50; ++call) ASSERT_TRUE(Pass(Call(static_cast<char>(3 + 2 * call), 40)));
  EXPECT_FALSE(Pass(Call(121, 1)));
  Reconnect();
  for (int call = 0; call < 60; ++call) ASSERT_TRUE(Pass(Call(static_cast<char>(3 + 2 * call), 64)));
}

TEST_F(FrameWatchTest, WhoDoesNotAcknowledgeSettingsMaySendShortHeaders) {
  constexpr std::size_t kEach = FrameWatch::kMaxEarlyBytes / 16;
  Reconnect(/*acknowledges=*/false);
  for (char stream = 3; stream < 35; stream += 2) ASSERT_TRUE(Pass(OfStream(stream, Frame(kHeaders, kEach))));
  EXPECT_FALSE(Pass(OfStream(35, Frame(kHeaders, 1))));
  Reconnect();
  for (char stream = 3; stream < 101; stream += 2)
    ASSERT_TRUE(Pass(OfStream(stream, Frame(kHeaders, kEach))));
}

}  // namespace
}  // namespace warpfold::server
