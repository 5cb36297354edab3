// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/incoming_array.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

absl::Status Mismatch(const char* field, std::uint64_t announced, std::uint64_t received) {
  return kernels::Error(
      absl::StatusCode::kDataLoss, reason::kCountMismatch,
      absl::StrCat(field, " says ", announced, ", but ", received, " arrived"),
      {{"field", field}, {"announced", absl::StrCat(announced)}, {"received", absl::StrCat(received)}});
}

absl::Status ChecksumMismatch(const char* field) {
  return kernels::Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
                        absl::StrCat(field, " does not match the bytes that arrived"), {{"field", field}});
}

}  // namespace

absl::Status ArrayTooLarge(std::uint64_t max_stream_bytes) {
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kArrayTooLarge,
                        absl::StrCat("the array exceeds max_stream_bytes = ", max_stream_bytes),
                        {{"limit", "max_stream_bytes"}, {"value", absl::StrCat(max_stream_bytes)}});
}

absl::StatusOr<bool> IncomingArray::Take(ParsedChunk chunk, Message message) {
  const std::uint64_t chunk_bytes = TotalBytes(chunk.data);
  const absl::Status status = CheckSize(chunk_bytes);
  received_bytes_ += chunk_bytes;  // they have come, even if they are rejected
  if (!status.ok()) return status;
  pending_.emplace(Pending{.message = std::move(message), .chunk = std::move(chunk), .crc32c = {}});
  return Place();
}

absl::StatusOr<bool> IncomingArray::Place() {
  Pending& pending = *pending_;
  while (pending.slice < pending.chunk.data.size()) {
    const ByteSlice rest = pending.chunk.data[pending.slice].subspan(pending.offset);
    // If the ordinary parser read the chunk, its bytes do not belong to the message, and end with the chunk.
    static const std::shared_ptr<const void> nobody;
    const std::shared_ptr<const void>& owner =
        pending.chunk.owned == nullptr ? pending.message.owner : nobody;
    const absl::StatusOr<std::size_t> placed = sink_.Append(rest, owner);
    if (!placed.ok()) return placed.status();
    Checksum(rest.first(*placed));
    if (*placed < rest.size()) {
      pending.offset += *placed;
      return false;
    }
    ++pending.slice;
    pending.offset = 0;
  }
  absl::Status status = EndChunk();
  pending_.reset();
  return status.ok() ? absl::StatusOr<bool>(true) : status;
}

absl::Status IncomingArray::CheckSize(std::uint64_t chunk_bytes) const {
  if (chunk_bytes > announced_.max_bytes - received_bytes_) return ArrayTooLarge(announced_.max_bytes);
  if (!announced_.count.has_value()) return absl::OkStatus();
  const std::uint64_t bytes_each = announced_.elements_each * announced_.element_bytes;
  if (received_bytes_ + chunk_bytes > *announced_.count * bytes_each) {
    const std::uint64_t come = received_bytes_ + chunk_bytes;
    return Mismatch(announced_.count_field, *announced_.count,
                    come / bytes_each + (come % bytes_each > 0 ? 1 : 0));
  }
  return absl::OkStatus();
}

// The bytes are in the cache: they have just been placed.
void IncomingArray::Checksum(ByteSlice placed) {
  if (pending_->chunk.crc32c.has_value()) {
    pending_->crc32c.Extend(placed);
  } else if (announced_.with_crc32c) {
    crc32c_.Extend(placed);
  }
}

absl::Status IncomingArray::EndChunk() {
  if (!pending_->chunk.crc32c.has_value()) return absl::OkStatus();
  const std::uint32_t crc32c = pending_->crc32c.value();
  if (announced_.with_crc32c) crc32c_.ExtendBy(crc32c, TotalBytes(pending_->chunk.data));
  return crc32c == *pending_->chunk.crc32c ? absl::OkStatus() : ChecksumMismatch("chunk.crc32c");
}

absl::Status IncomingArray::Compare(const v1::ReduceCommit& commit) const {
  if (commit.byte_count() != received_bytes_) {
    return Mismatch("commit.byte_count", commit.byte_count(), received_bytes_);
  }
  if (absl::Status status = CompareElements(commit.element_count()); !status.ok()) return status;
  if (commit.has_crc32c() != announced_.with_crc32c) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                          "commit.crc32c must be there exactly where header.with_crc32c announces it",
                          {{"field", "with_crc32c"}});
  }
  if (commit.has_crc32c() && commit.crc32c() != crc32c_.value()) return ChecksumMismatch("commit.crc32c");
  return absl::OkStatus();
}

absl::Status IncomingArray::CompareElements(std::uint64_t committed) const {
  const std::uint64_t elements = received_bytes_ / announced_.element_bytes;
  if (received_bytes_ % announced_.element_bytes != 0) {
    return kernels::Error(
        absl::StatusCode::kDataLoss, reason::kCountMismatch,
        absl::StrCat("the array ends inside element ", elements, " of ", announced_.element_bytes, " bytes"),
        {{"field", "commit.byte_count"}});
  }
  if (committed != elements) return Mismatch("commit.element_count", committed, elements);
  if (announced_.count.has_value() && *announced_.count * announced_.elements_each != elements) {
    return Mismatch(announced_.count_field, *announced_.count, elements / announced_.elements_each);
  }
  return absl::OkStatus();
}

}  // namespace warpfold::server
