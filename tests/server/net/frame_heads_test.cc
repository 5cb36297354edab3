// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/frame_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

namespace warpfold::server {
namespace {

std::string Frame(int type, unsigned flags, std::uint32_t stream, std::size_t length = 0) {
  std::string frame;
  for (const std::size_t shift : {16, 8, 0}) frame += static_cast<char>(length >> shift & 255);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const std::size_t shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift & 255);
  // The content of a frame must not be taken for a head.
  return frame + std::string(length, '\x01');
}

std::uint64_t EndsIn(const std::string& bytes, std::size_t piece = 1 << 20) {
  CallEnds ends;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    ends.Take(std::as_bytes(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at))));
  }
  return ends.count();
}

TEST(FrameHeadsTest, HaveALengthATypeFlagsAndAStream) {
  const std::string bytes = "preface" + Frame(9, 4, 0x01020304, 300) + Frame(200, 255, 7) + "\x01";
  std::span<const std::byte> left = std::as_bytes(std::span(bytes));
  FrameHeads heads(7);
  const std::optional<FrameHead> first = heads.Next(&left);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->length, 300u);
  EXPECT_EQ(first->type, 9);
  EXPECT_EQ(first->flags, 4u);
  EXPECT_EQ(first->stream, 0x01020304u);
  const std::optional<FrameHead> second = heads.Next(&left);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->type, 200);
  EXPECT_EQ(second->flags, 255u);
  EXPECT_EQ(second->stream, 7u);
  EXPECT_FALSE(heads.Next(&left).has_value());
}

TEST(CallEndsTest, AreLastFramesAndResets) {
  const std::string headers = Frame(kHeaders, 4, 1, 20);
  const std::string trailers = Frame(kHeaders, 4 | kEndStream, 1, 20);
  EXPECT_EQ(EndsIn(Frame(kSettings, 0, 0, 30) + headers + Frame(kData, 0, 1, 1000)), 0u);
  EXPECT_EQ(EndsIn(headers + trailers), 1u);
  EXPECT_EQ(EndsIn(Frame(kData, kEndStream, 1, 5)), 1u);
  EXPECT_EQ(EndsIn(Frame(kResetStream, 0, 3, 4)), 1u);
  EXPECT_EQ(EndsIn(Frame(kSettings, kAck, 0) + Frame(6, kAck, 0, 8)), 0u) << "acknowledgements";
  EXPECT_EQ(EndsIn(trailers + Frame(kResetStream, 0, 1, 4)), 1u) << "of one call";
  EXPECT_EQ(EndsIn(trailers + Frame(kResetStream, 0, 3, 4)), 2u);
}

TEST(CallEndsTest, CutsDoNotMatter) {
  std::string bytes = Frame(kSettings, 0, 0, 30);
  for (std::uint32_t call = 0; call < 100; ++call) {
    bytes += Frame(kHeaders, 4, 2 * call + 1, 17) + Frame(kData, 0, 2 * call + 1, 100 * call);
    bytes += Frame(kHeaders, 4 | kEndStream, 2 * call + 1, 3);
  }
  for (const std::size_t piece : {1, 2, 8, 9, 10, 1000}) EXPECT_EQ(EndsIn(bytes, piece), 100u) << piece;
}

}  // namespace
}  // namespace warpfold::server
