// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/frame_watch.h"

#include <algorithm>
#include <optional>

namespace warpfold::server {

const char* FrameWatch::Take(std::span<const std::byte> bytes, Time now) {
  while (true) {
    if (in_headers_) {
      if (const char* const complaint = TakeFields(heads_.TakePayload(&bytes)); complaint != nullptr) {
        return complaint;
      }
    }
    const std::optional<FrameHead> head = heads_.Next(&bytes);
    if (!head.has_value()) return nullptr;
    in_headers_ = head->type == kHeaders || head->type == kContinuation;
    if (const char* const complaint = TakeHead(*head, now); complaint != nullptr) return complaint;
  }
}

const char* FrameWatch::TakeHead(const FrameHead& head, Time now) {
  const auto [length, type, flags, stream] = head;
  if (type == kHeaders) return TakeHeaders(head, now);
  if (type == kContinuation) {
    if (!in_trailers_) free_frames_ = kFreeFrames;
    return TakeHeaderBytes(length, in_trailers_ ? kMaxTrailerBytes : kMaxContinuedBytes);
  }
  const bool is_end = (flags & kEndStream) != 0;
  if (type == kData && (is_end ? TakeEnd() : length > 0)) {
    free_frames_ = kFreeFrames;
    CountData(head);
    return nullptr;
  }
  if (type == kResetStream) {
    ++reset_count_;
    return resets_.Spend(1, now) ? nullptr : "calls that are taken back";
  }
  if (type == kSettings && (flags & kAck) != 0) {
    // gRPC would treat its defaults, which limit nothing, as acknowledged.
    if (!server_speaks_) return "an acknowledgement of settings that it has not got";
    acknowledged_ = true;
  }
  if (type == kWindowUpdate) return windows_.Spend(1, now) ? nullptr : "windows that are opened without end";
  return TakeIdle(now);
}

const char* FrameWatch::TakeHeaders(const FrameHead& head, Time now) {
  // gRPC ignores such a stream. It would be the highest here, and hide the calls that follow.
  if (head.stream % 2 == 0) return "headers of a stream that no client begins";
  const bool has_priority = (head.flags & kHasPriority) != 0;
  // gRPC takes the priority's bytes only from this frame. If they were missing, it would find other fields in
  // the next frame than this code does.
  if (has_priority && head.length < HeaderFields::kPriorityBytes) return "headers without their priority";
  header_bytes_ = 0;
  fields_.Begin(has_priority);
  // A client's second header block on a stream, its trailers, is not a call.
  in_trailers_ = head.stream <= last_call_;
  if (!in_trailers_) {
    BeginCall(head);
  } else if (!TakeEnd()) {
    if (const char* const complaint = TakeIdle(now); complaint != nullptr) return complaint;
  }
  if (const char* const complaint = TakeCall(now); complaint != nullptr) return complaint;
  return TakeHeaderBytes(head.length, in_trailers_ ? kMaxTrailerBytes : kMaxHeaderBytes);
}

void FrameWatch::BeginCall(const FrameHead& head) {
  ++call_count_;
  last_call_ = head.stream;
  free_frames_ = kFreeFrames;
  free_small_frames_ = kFreeSmallFrames;
  if ((head.flags & kEndStream) == 0) {
    calls_without_end_ = std::min(calls_without_end_ + 1, kMaxCallsWithoutEnd);
  }
}

bool FrameWatch::TakeEnd() {
  if (calls_without_end_ == 0) return false;
  --calls_without_end_;
  return true;
}

const char* FrameWatch::TakeHeaderBytes(std::uint32_t length, std::uint64_t most) {
  header_bytes_ += length + kFrameCost;
  if (!acknowledged_) early_bytes_ += length;
  const bool are_few = header_bytes_ <= most && early_bytes_ <= kMaxEarlyBytes;
  return are_few ? nullptr : "headers without an end";
}

const char* FrameWatch::TakeFields(std::span<const std::byte> bytes) {
  const int before = fields_.count();
  fields_.Take(bytes);
  if (!acknowledged_) early_fields_ += fields_.count() - before;
  const int most = in_trailers_ ? kMaxTrailers : kMaxFields;
  const bool are_few = fields_.count() <= most && early_fields_ <= kMaxEarlyFields;
  return are_few ? nullptr : "calls of very many header fields";
}

const char* FrameWatch::TakeCall(Time now) {
  if (acknowledged_) return nullptr;
  if (early_calls_++ == 0) first_call_ = now;
  const bool is_early = early_calls_ <= kMaxEarlyCalls && now - first_call_ <= kSettingsTimeout;
  return is_early ? nullptr : "calls, and does not acknowledge settings";
}

void FrameWatch::CountData(const FrameHead& head) {
  if (head.length >= kSmallFrame) {
    free_small_frames_ = std::max(free_small_frames_, 1);
  } else if ((head.flags & kEndStream) == 0) {
    if (free_small_frames_ > 0) {
      --free_small_frames_;
    } else {
      ++small_frame_count_;
    }
  }
}

const char* FrameWatch::TakeIdle(Time now) {
  if (free_frames_ > 0) {
    --free_frames_;
    return nullptr;
  }
  return idle_frames_.Spend(1, now) ? nullptr : "frames that carry nothing";
}

}  // namespace warpfold::server
