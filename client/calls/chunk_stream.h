// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A call that sends an array: header, chunks, commit. The user of this class makes the header and reads the
// response; chunks and commits have the same form in all such calls. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/calls/raw_call.h"
#include "client/connections/connection.h"
#include "client/options.h"
#include "google/protobuf/message_lite.h"
#include "proto/crc32c.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// Bytes of a full chunk, unless the server advises others. Messages of 512 KiB to 2 MiB are fastest.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// The end of a chunk never splits a scalar if its size is a power of two and at least the first of these,
// which generators rely on; the server accepts no payload larger than the second.
inline constexpr std::size_t kMinChunkBytes = 4096;
inline constexpr std::size_t kMaxChunkBytes = std::size_t{4} << 20;

// Sends an array's chunks over a call, and counts what the commit says about them. Threads: one at a time.
class ChunkSender {
 public:
  // Takes checksum and on_sent from `options`. Both must outlive this.
  ChunkSender(RawCall& call, const CallOptions& options);

  // False if the call is over: its Finish says why.
  bool Send(const grpc::Slice& chunk);

  // The end of the array, whose elements have `element_bytes` bytes; 0 if only the server knows.
  v1::ReduceCommit Commit(std::uint64_t element_bytes) const;

  std::uint64_t sent_bytes() const { return byte_count_; }

 private:
  RawCall& call_;
  const std::function<void(std::uint64_t bytes)>& on_sent_;
  std::optional<proto::Crc32c> crc_;  // of all chunks
  std::uint64_t byte_count_ = 0;
};

// Threads: one at a time.
class ChunkStream {
 public:
  // Starts the call with `header`, a request that carries one. Takes checksum and on_sent from `options`,
  // which must outlive this. `array` as in CallScope, `load` as in RawCall.
  ChunkStream(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
              const CallOptions& options, const char* method, const google::protobuf::MessageLite& header,
              const std::string& array = "", RawCall::Load load = RawCall::Load::kArray);

  // Waits until chunks may be sent to the server (RawCall::AwaitAdmission). False if the call is over: Finish
  // says why. Send does this too; a caller that makes chunks calls it first.
  bool AwaitAdmission();

  // Sends one chunk. False if the call is over: Finish says why.
  bool Send(const grpc::Slice& chunk);

  // Waits until the network has taken everything that was sent. False if the call is over.
  bool Flush();

  // Waits up to `timeout` for the call to end. Returns whether it has: Finish then does not wait.
  bool AwaitEnd(absl::Duration timeout);

  // Ends the array; `element_bytes` as in ChunkSender. False if the call is over: Finish says why.
  bool Commit(std::uint64_t element_bytes);

  // Waits for the response. INTERNAL for a response before the commit. Call once.
  absl::StatusOr<grpc::ByteBuffer> Finish();

  // As RawCall::WasDropped.
  bool was_dropped() const { return call_.WasDropped(); }
  // Whether the network has taken more than the header, if only the commit of an array without elements: the
  // server may have done what the call is for.
  bool took_messages() const { return call_.writes_completed() > kMessagesBeforeChunks; }
  std::uint64_t sent_bytes() const { return chunks_.sent_bytes(); }

 private:
  static constexpr int kMessagesBeforeChunks = 1;  // the header

  CallScope scope_;
  RawCall call_;
  ChunkSender chunks_;
  bool over_ = false;
  bool may_send_ = false;
  bool committed_ = false;
};

}  // namespace warpfold
