// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/chunk_stream.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/calls/wire.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"

namespace warpfold {

ChunkSender::ChunkSender(RawCall& call, const CallOptions& options) : call_(call), on_sent_(options.on_sent) {
  if (options.checksum) crc_.emplace();
}

bool ChunkSender::Send(const grpc::Slice& chunk) {
  if (crc_.has_value()) crc_->Extend(std::as_bytes(std::span(chunk.begin(), chunk.size())));
  if (!call_.Write(ChunkMessage(chunk))) return false;
  byte_count_ += chunk.size();
  if (on_sent_) on_sent_(chunk.size());
  return true;
}

v1::ReduceCommit ChunkSender::Commit(std::uint64_t element_bytes) const {
  v1::ReduceCommit commit;
  // The server rejects an array that ends inside an element: its byte count shows this.
  if (element_bytes != 0) commit.set_element_count(byte_count_ / element_bytes);
  commit.set_byte_count(byte_count_);
  if (crc_.has_value()) commit.set_crc32c(crc_->value());
  return commit;
}

ChunkStream::ChunkStream(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
                         const CallOptions& options, const char* method,
                         const google::protobuf::MessageLite& header, const std::string& array,
                         RawCall::Load load)
    : scope_(connection, deadline, interrupts, array),
      call_(scope_, method, nullptr, load),
      chunks_(call_, options) {
  over_ = !call_.Write(Serialize(header));
}

bool ChunkStream::AwaitAdmission() {
  if (!over_ && !std::exchange(may_send_, true)) over_ = !call_.AwaitAdmission();
  return !over_;
}

bool ChunkStream::Send(const grpc::Slice& chunk) {
  over_ = !AwaitAdmission() || !chunks_.Send(chunk);
  return !over_;
}

bool ChunkStream::Flush() {
  over_ = over_ || !call_.Flush();
  return !over_;
}

bool ChunkStream::AwaitEnd(absl::Duration timeout) {
  over_ = over_ || call_.AwaitEnd(timeout);
  return over_;
}

bool ChunkStream::Commit(std::uint64_t element_bytes) {
  if (over_) return false;
  // A commit has the same number in the requests of all such calls.
  v1::ReduceRequest request;
  *request.mutable_commit() = chunks_.Commit(element_bytes);
  committed_ = call_.WriteLast(Serialize(request));
  over_ = !committed_;
  return committed_;
}

absl::StatusOr<grpc::ByteBuffer> ChunkStream::Finish() {
  grpc::ByteBuffer buffer;
  if (absl::Status status = call_.Finish(&buffer); !status.ok()) return status;
  if (!committed_) return absl::InternalError("the server answered before the end of the array");
  return buffer;
}

}  // namespace warpfold
