// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/frame_watch.h"

#include <algorithm>

namespace warpfold::server {
namespace {

// RFC 9113, section 6.
constexpr int kData = 0;
constexpr int kHeaders = 1;
constexpr int kResetStream = 3;
constexpr int kSettings = 4;
constexpr int kWindowUpdate = 8;
constexpr int kContinuation = 9;
constexpr unsigned kEndStream = 1;
constexpr unsigned kAck = 1;

}  // namespace

const char* FrameWatch::Take(std::span<const std::byte> bytes, Time now) {
  while (!bytes.empty()) {
    const std::size_t skipped = std::min<std::uint64_t>(skip_, bytes.size());
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    const std::size_t n = std::min(head_.size() - head_bytes_, bytes.size());
    std::copy_n(bytes.begin(), n, head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
    head_bytes_ += n;
    bytes = bytes.subspan(n);
    if (head_bytes_ < head_.size()) break;
    head_bytes_ = 0;
    if (const char* const complaint = TakeHead(now); complaint != nullptr) return complaint;
  }
  return nullptr;
}

const char* FrameWatch::TakeHead(Time now) {
  const auto at = [this](std::size_t i) { return std::to_integer<std::uint32_t>(head_[i]); };
  const std::uint32_t length = at(0) << 16 | at(1) << 8 | at(2);
  const int type = static_cast<int>(at(3));
  skip_ = length;
  if (type == kHeaders || type == kContinuation) {
    free_frames_ = kFreeFrames;
    if (type == kContinuation) return TakeHeaders(length);
    header_bytes_ = 0;
    const char* const complaint = TakeCall(now);
    return complaint != nullptr ? complaint : TakeHeaders(length);
  }
  if (type == kData && (length > 0 || (at(4) & kEndStream) != 0)) {
    free_frames_ = kFreeFrames;
    return nullptr;
  }
  if (type == kResetStream) {
    ++reset_count_;
    return resets_.Spend(1, now) ? nullptr : "calls that are taken back";
  }
  if (type == kSettings && (at(4) & kAck) != 0) acknowledged_ = true;
  if (type == kWindowUpdate) return windows_.Spend(1, now) ? nullptr : "windows that are opened without end";
  return TakeIdle(now);
}

const char* FrameWatch::TakeHeaders(std::uint32_t length) {
  header_bytes_ += length + kFrameCost;
  return header_bytes_ <= kMaxHeaderBytes ? nullptr : "headers without an end";
}

const char* FrameWatch::TakeCall(Time now) {
  if (acknowledged_) return nullptr;
  if (early_calls_++ == 0) first_call_ = now;
  const bool is_early = early_calls_ <= kMostEarlyCalls && now - first_call_ <= kSettingsTimeout;
  return is_early ? nullptr : "calls, and does not acknowledge settings";
}

const char* FrameWatch::TakeIdle(Time now) {
  if (free_frames_ > 0) {
    --free_frames_;
    return nullptr;
  }
  return idle_frames_.Spend(1, now) ? nullptr : "frames that carry nothing";
}

}  // namespace warpfold::server
