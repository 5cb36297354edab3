// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the memory that is held for clients that do not read their answers. A call that has been answered
// holds no place, so that the client's next call finds one; but until the transport has written the answer,
// the call and its response occupy memory. A client that closes its window (HTTP/2's flow control) could pile
// them up, and could go on sending on calls that it has not half-closed. If too much is held, parties that
// have more than their share of it are cut off, which costs the others nothing.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "server/core/limits.h"

namespace warpfold::server {

class PendingAnswers {
 public:
  // The memory that a call takes besides its response, as measured, including gRPC's part.
  static constexpr std::uint64_t kCallBytes = std::uint64_t{14} << 10;

  // One answer, from when it is given to the transport until its call is gone. `answers` must outlive it.
  class Entry {
   public:
    // `party`: whose call it is. `half_closed`: the client can send no more on the call. Otherwise gRPC keeps
    // up to a window of what the client sends, which nobody reads any more.
    Entry(PendingAnswers& answers, const std::string& party, std::uint64_t response_bytes, bool half_closed);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    PendingAnswers& answers_;
    const std::uint64_t bytes_;
    const std::map<std::string, std::uint64_t>::iterator of_party_;
  };

  // How long a client of this party may take to read an answer: `idle`, but next to nothing if more than
  // kMaxPendingAnswerBytes are held in total, and for this party more than its equal share of these. An
  // answer counts as read once it is in the socket's buffer, so that a slow network alone does not delay it.
  absl::Duration Patience(absl::Duration idle, const std::string& party) const;

 private:
  static constexpr absl::Duration kShortPatience = absl::Milliseconds(100);

  std::map<std::string, std::uint64_t>::iterator Add(const std::string& party, std::uint64_t bytes);

  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t bytes_ = 0;
  std::map<std::string, std::uint64_t> parties_;  // those who have some
};

}  // namespace warpfold::server
