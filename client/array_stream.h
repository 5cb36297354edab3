// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One Reduce call: header, chunks, commit. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "client/options.h"
#include "client/raw_call.h"
#include "proto/crc32c.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// Bytes of a full chunk, unless the server advises others. Messages of 512 KiB to 2 MiB are fastest.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// Threads: one at a time.
class ArrayStream {
 public:
  // Starts the call and sends the header. Takes checksum and on_sent from `options`, which must outlive
  // this.
  // `array` as in CallScope.
  ArrayStream(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
              const CallOptions& options, const v1::ReduceHeader& header, const std::string& array = "");

  // Sends one chunk. False if the call is over: Finish says why.
  bool Send(const grpc::Slice& chunk);

  // Waits until the network has taken all that was sent. False if the call is over.
  bool Flush();

  // Waits up to `timeout` for an end of the call before its commit. Whether it is over.
  bool AwaitEnd(absl::Duration timeout);

  // Commits if all chunks were sent, and waits for the answer. INTERNAL for one that is not to this request.
  // Call once.
  absl::StatusOr<v1::Reduction> Finish(std::uint64_t element_bytes);

  // Whether the network has taken a part of the array.
  bool took_data() const { return call_.writes_completed() > 1; }

 private:
  v1::ReduceCommit Commit(std::uint64_t element_bytes) const;

  const v1::ReduceHeader header_;
  CallScope scope_;
  RawCall call_;
  const std::function<void(std::uint64_t bytes)>& on_sent_;
  std::optional<proto::Crc32c> crc_;  // of all chunks
  std::uint64_t byte_count_ = 0;
  bool over_ = false;
};

}  // namespace warpfold
