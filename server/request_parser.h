// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Takes one ReduceRequest off the wire without copying the array's bytes.
//
// A chunk in the layout that protobuf implementations write by themselves (one chunk, checksum before
// data, data to the end) is read in place. Every other layout that the protobuf encoding allows (fields in
// another order, unknown fields, a oneof given twice) goes through the ordinary protobuf parser, which
// has the last word on what is well-formed: both ways give the same result.
//
// Threads: a pure function. Memory: for a chunk in place, a few dozen bytes; else in proportion to the
// message, which the transport bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "server/byte_slices.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// A piece of the array.
struct ParsedChunk {
  std::optional<std::uint32_t> crc32c;
  // The bytes, in order: views of the message that was parsed, or of `owned`.
  std::vector<ByteSlice> data;
  std::unique_ptr<v1::ReduceRequest> owned;
};

using ParsedRequest = std::variant<v1::ReduceHeader, ParsedChunk, v1::ReduceCommit>;

// `message` must live as long as the chunk that is made of it. INVALID_ARGUMENT (BAD_MESSAGE) where it is
// not a ReduceRequest or carries neither header, chunk nor commit; RESOURCE_EXHAUSTED (MESSAGE_TOO_LARGE)
// where it has more than `max_message_bytes`.
absl::StatusOr<ParsedRequest> ParseRequest(ByteSlices message, std::uint64_t max_message_bytes);

}  // namespace warpfold::server
