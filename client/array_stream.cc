// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/array_stream.h"

#include <span>
#include <utility>

#include "client/answer_check.h"
#include "client/wire.h"

namespace warpfold {
namespace {

constexpr char kReduceMethod[] = "/warpfold.v1.ReductionService/Reduce";

}  // namespace

ArrayStream::ArrayStream(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
                         const CallOptions& options, const v1::ReduceHeader& header, const std::string& array)
    : header_(header),
      scope_(connection, deadline, interrupts, array),
      call_(scope_, kReduceMethod),
      on_sent_(options.on_sent) {
  if (options.checksum) crc_.emplace();
  v1::ReduceRequest request;
  *request.mutable_header() = header;
  request.mutable_header()->set_with_crc32c(options.checksum);
  over_ = !call_.Write(Serialize(request));
}

bool ArrayStream::Send(const grpc::Slice& chunk) {
  if (over_) return false;
  if (crc_.has_value()) crc_->Extend(std::as_bytes(std::span(chunk.begin(), chunk.size())));
  over_ = !call_.Write(ChunkMessage(chunk, std::nullopt));
  if (over_) return false;
  byte_count_ += chunk.size();
  if (on_sent_) on_sent_(chunk.size());
  return true;
}

bool ArrayStream::Flush() {
  over_ = over_ || !call_.Flush();
  return !over_;
}

bool ArrayStream::AwaitEnd(absl::Duration timeout) {
  over_ = over_ || call_.AwaitEnd(timeout);
  return over_;
}

v1::ReduceCommit ArrayStream::Commit(std::uint64_t element_bytes) const {
  v1::ReduceCommit commit;
  // The server refuses an array that ends inside an element: its byte count tells.
  if (element_bytes != 0) commit.set_element_count(byte_count_ / element_bytes);
  commit.set_byte_count(byte_count_);
  if (crc_.has_value()) commit.set_crc32c(crc_->value());
  return commit;
}

absl::StatusOr<v1::Reduction> ArrayStream::Finish(std::uint64_t element_bytes) {
  const bool committed = !over_;
  if (committed) {
    v1::ReduceRequest request;
    *request.mutable_commit() = Commit(element_bytes);
    call_.WriteLast(Serialize(request));
    over_ = true;
  }
  grpc::ByteBuffer buffer;
  if (absl::Status status = call_.Finish(&buffer); !status.ok()) return status;
  if (!committed) return absl::InternalError("the server answered before the end of the array");
  v1::ReduceResponse response;
  if (!Parse(std::move(buffer), response)) return absl::InternalError("the server's answer is not readable");
  const Stripe sent = {header_.first_element(), element_bytes == 0 ? 0 : byte_count_ / element_bytes};
  absl::Status status = CheckReduction(header_.spec(), sent, header_.return_state(), response.reduction());
  if (!status.ok()) return status;
  return std::move(*response.mutable_reduction());
}

}  // namespace warpfold
