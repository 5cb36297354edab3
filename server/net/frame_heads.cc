// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/frame_heads.h"

#include <algorithm>

namespace warpfold::server {

std::optional<FrameHead> FrameHeads::Next(std::span<const std::byte>* bytes) {
  TakePayload(bytes);
  const std::size_t n = std::min(head_.size() - head_bytes_, bytes->size());
  std::copy_n(bytes->begin(), n, head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
  head_bytes_ += n;
  *bytes = bytes->subspan(n);
  if (head_bytes_ < head_.size()) return std::nullopt;
  head_bytes_ = 0;
  const auto at = [this](std::size_t i) { return std::to_integer<std::uint32_t>(head_[i]); };
  const FrameHead head = {.length = at(0) << 16 | at(1) << 8 | at(2),
                          .type = static_cast<int>(at(3)),
                          .flags = at(4),
                          .stream = (at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8)) & 0x7fffffff};
  skip_ = head.length;
  return head;
}

std::span<const std::byte> FrameHeads::TakePayload(std::span<const std::byte>* bytes) {
  const std::size_t n = std::min<std::uint64_t>(skip_, bytes->size());
  skip_ -= n;
  const std::span<const std::byte> payload = bytes->first(n);
  *bytes = bytes->subspan(n);
  return payload;
}

void CallEnds::Take(std::span<const std::byte> bytes) {
  while (const std::optional<FrameHead> head = heads_.Next(&bytes)) {
    const bool is_last = (head->type == kHeaders || head->type == kData) && (head->flags & kEndStream) != 0;
    const bool is_reset = head->type == kResetStream && head->stream != last_;
    if (!is_last && !is_reset) continue;
    last_ = head->stream;
    ++count_;
  }
}

}  // namespace warpfold::server
