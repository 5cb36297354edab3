// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the nine-byte heads of HTTP/2 frames (RFC 9113, section 4.1) in the bytes of one direction of a
// connection, however these are split.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace warpfold::server {

// RFC 9113, section 6.
enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettings = 4,
  kWindowUpdate = 8,
  kContinuation = 9
};
inline constexpr unsigned kEndStream = 1;
inline constexpr unsigned kAck = 1;
inline constexpr unsigned kHasPriority = 0x20;

struct FrameHead {
  std::uint32_t length;
  int type;  // a FrameType, or another
  unsigned flags;
  std::uint32_t stream;
};

// Threads: one at a time.
class FrameHeads {
 public:
  // The number of other bytes before the first frame.
  explicit FrameHeads(std::uint64_t preface_bytes) : skip_(preface_bytes) {}

  // The next head in `*bytes`, in which only the bytes after it are left; nothing if it has not come yet.
  std::optional<FrameHead> Next(std::span<const std::byte>* bytes);
  // Takes from the front of `*bytes` what belongs to the payload of the last head, and returns it. Next skips
  // payload that was not taken.
  std::span<const std::byte> TakePayload(std::span<const std::byte>* bytes);

 private:
  std::uint64_t skip_;  // bytes that are not a head, and are still to come
  std::array<std::byte, 9> head_ = {};
  std::size_t head_bytes_ = 0;  // bytes of head_ that have come
};

// Counts the calls that the server has ended, in the frames that it sends.
//
// Threads: one at a time.
class CallEnds {
 public:
  void Take(std::span<const std::byte> bytes);
  std::uint64_t count() const { return count_; }

 private:
  FrameHeads heads_{0};
  std::uint32_t last_ = 0;  // the last call that was ended: a reset may follow
  std::uint64_t count_ = 0;
};

}  // namespace warpfold::server
