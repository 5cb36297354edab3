// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is held for clients that do not take their answers. A call that has been answered holds no place, so
// that the client's next call finds one; but until the transport has written the answer the call and its
// response occupy memory. A client that closes its window (HTTP/2's flow control) could heap them up, and
// could go on sending on calls that it has not half-closed.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "server/core/limits.h"

namespace warpfold::server {

class PendingAnswers {
 public:
  // A call takes so much memory besides its response. Measured, and gRPC's part is in it.
  static constexpr std::uint64_t kCallBytes = std::uint64_t{14} << 10;

  // One answer, from when it is given to the transport until its call is gone.
  class Entry {
   public:
    Entry() = default;
    // `half_closed`: the client can send no more on the call. Otherwise gRPC keeps up to a window of what it
    // sends, which nobody reads any more.
    Entry(PendingAnswers& answers, std::uint64_t response_bytes, bool half_closed)
        : answers_(&answers), bytes_(response_bytes + kCallBytes + (half_closed ? 0 : kStreamWindowBytes)) {
      answers_->bytes_ += bytes_;
    }
    ~Entry() {
      if (answers_ != nullptr) answers_->bytes_ -= bytes_;
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    PendingAnswers* const answers_ = nullptr;
    const std::uint64_t bytes_ = 0;
  };

  // How long a client may take over an answer: `idle`, but next to nothing where too much is held already. An
  // answer is taken once it is in the socket's buffer, so that a slow network alone does not delay it.
  absl::Duration Patience(absl::Duration idle) const {
    return bytes_ > kMaxPendingAnswerBytes ? kShortPatience : idle;
  }

 private:
  static constexpr absl::Duration kShortPatience = absl::Milliseconds(100);

  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace warpfold::server
