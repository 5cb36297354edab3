// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Frames of HTTP/2, and a watch that takes them, for the tests of FrameWatch.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "server/net/frame_heads.h"
#include "server/net/frame_watch.h"

namespace warpfold::server {

inline constexpr int kPing = 6;
inline constexpr int kUnknown = 200;
inline constexpr char kTableSize = '\x20';

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string Frame(int type, std::size_t length, unsigned flags = 0) {
  std::string frame;
  for (const std::size_t shift : {16, 8, 0}) frame += static_cast<char>(length >> shift & 255);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  frame += std::string(3, '\0') + '\1';
  // The content of a frame must not be taken for a head. In headers these are changes of HPACK's table.
  const bool is_headers = type == kHeaders || type == kContinuation;
  return frame + std::string(length, is_headers ? kTableSize : '\x03');
}

inline std::string OfStream(std::uint32_t stream, std::string frame) {
  for (int byte = 0; byte < 4; ++byte) frame[8 - byte] = static_cast<char>(stream >> 8 * byte & 255);
  return frame;
}

// Headers of a call on this stream, with so many fields that are in HPACK's table.
inline std::string Call(std::uint32_t stream, std::size_t fields, int type = kHeaders) {
  return OfStream(stream, Frame(type, fields)).substr(0, 9) + std::string(fields, '\x82');
}

class FrameWatchTest : public testing::Test {
 protected:
  FrameWatchTest() { Reconnect(); }

  void Reconnect(bool acknowledges = true) {
    watch_.emplace();
    watch_->ServerSpeaks();
    EXPECT_TRUE(Pass(kPreface));
    if (acknowledges) {
      EXPECT_TRUE(Pass(Frame(kHeaders, 0) + Frame(kSettings, 0, kAck)));
    }
  }
  bool Pass(const std::string& bytes) {
    return watch_->Take(std::as_bytes(std::span(bytes)), now_) == nullptr;
  }
  // How many of these frames pass, `most` at most.
  int Count(const std::string& frame, int most) {
    int passed = 0;
    while (passed < most && Pass(frame)) ++passed;
    return passed;
  }
  // Headers that begin a call.
  std::string NewCall(std::size_t length, unsigned flags = 0) {
    return OfStream(stream_ += 2, Frame(kHeaders, length, flags));
  }
  // How many calls pass that begin so and go on with these frames.
  int CountCalls(std::size_t header_bytes, const std::string& frames, int most) {
    int passed = 0;
    while (passed < most && Pass(NewCall(header_bytes) + frames)) ++passed;
    return passed;
  }

  std::optional<FrameWatch> watch_;
  std::uint32_t stream_ = 1;
  FrameWatch::Time now_ = FrameWatch::Time() + std::chrono::hours(1);
};

}  // namespace warpfold::server
