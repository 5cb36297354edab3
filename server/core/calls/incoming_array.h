// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one array that arrives in chunks: counts them, checksums them if that was announced, hands
// them to a sink, and compares them with the commit.
//
// Threads: the shard's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/crc32c.h"
#include "server/core/slots/array_sink.h"
#include "server/core/wire/message.h"
#include "server/core/wire/request_parser.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// RESOURCE_EXHAUSTED (ARRAY_TOO_LARGE).
absl::Status ArrayTooLarge(std::uint64_t max_stream_bytes);

class IncomingArray {
 public:
  // What the header says about the array.
  struct Announced {
    std::uint64_t element_bytes = 1;
    std::uint64_t max_bytes = 0;                         // ServerLimits.max_stream_bytes
    std::optional<std::uint64_t> count;                  // of elements, or of segments
    const char* count_field = "expected_element_count";  // the header's that says it
    std::uint64_t elements_each = 1;                     // how many elements each of those has
    bool with_crc32c = false;
  };

  // `sink` must outlive it.
  IncomingArray(ArraySink& sink, const Announced& announced) : sink_(sink), announced_(announced) {}

  // The next chunk, whose bytes `message` owns. True once all of it is in the sink; otherwise Place goes on
  // when the sink has room. Not while is_placing().
  absl::StatusOr<bool> Take(ParsedChunk chunk, Message message);
  absl::StatusOr<bool> Place();
  bool is_placing() const { return pending_.has_value(); }

  // DATA_LOSS unless the commit matches what arrived.
  absl::Status Compare(const v1::ReduceCommit& commit) const;

  // Gives back the message that is being placed.
  void Release() { pending_.reset(); }

  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  // The bytes of a message that have not been placed yet.
  struct Pending {
    Message message;
    ParsedChunk chunk;
    std::size_t slice = 0;
    std::size_t offset = 0;
    proto::Crc32c crc32c;  // of the bytes placed, if the chunk has a checksum
  };

  absl::Status CheckSize(std::uint64_t chunk_bytes) const;
  void Checksum(ByteSlice placed);
  absl::Status EndChunk();
  absl::Status CompareElements(std::uint64_t committed) const;

  ArraySink& sink_;
  const Announced announced_;
  std::optional<Pending> pending_;
  std::uint64_t received_bytes_ = 0;
  proto::Crc32c crc32c_;  // of the received bytes, if the header announces one
};

}  // namespace warpfold::server
