// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Parses requests without copying the array's bytes.
//
// Array bytes in the layout that protobuf implementations normally write (data as the last field) are read in
// place. Every other layout that the protobuf encoding allows (fields in another order, unknown fields, a
// oneof given twice) goes through the ordinary protobuf parser, which decides what is well-formed: both ways
// give the same result.
//
// Errors of all functions: INVALID_ARGUMENT (BAD_MESSAGE) if the message is not of its type, or has more than
// kMaxStreamFields fields (wire_guard.h); RESOURCE_EXHAUSTED (MESSAGE_TOO_LARGE) if the payload has more than
// kMaxPayloadBytes, or what surrounds it more than kMaxFramingBytes.
//
// Threads: pure functions. Memory: for data in place, a few dozen bytes and what surrounds the data;
// otherwise a small multiple of the message.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/core/wire/byte_slices.h"
#include "warpfold/v1/arrays.pb.h"
#include "warpfold/v1/reduction.pb.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold::server {

// A piece of the array.
struct ParsedChunk {
  std::optional<std::uint32_t> crc32c;
  // The bytes, in order: views of the message that was parsed, or of `owned`.
  std::vector<ByteSlice> data;
  std::shared_ptr<const google::protobuf::Message> owned;
};

// A message of a stream that starts with this header.
template <class Header>
using ParsedRequest = std::variant<Header, ParsedChunk, v1::ReduceCommit>;

// A message of a stream that carries segments.
using ParsedSegmentsRequest =
    std::variant<v1::ReduceSegmentsHeader, ParsedChunk, v1::SegmentsCommit, v1::SegmentLengths>;

// A whole array in one message.
struct ParsedArray {
  v1::ReduceArrayRequest request;  // without its data
  ParsedChunk data;
};

// A ReduceArrayRequest as protobuf writes it, whose spec need not be read if its plan is known: the spec, the
// request_id if there is one, and the data, each once and in this order. `spec` may not be a valid message.
struct PlainArray {
  absl::string_view spec;        // serialized
  absl::string_view request_id;  // printable ASCII
  std::vector<ByteSlice> data;   // at most kMaxPayloadBytes
};

// None for any other request, which ParseReduceArrayRequest has to read, and for one whose spec and
// request_id do not lie in the first slice. The result refers to the message.
std::optional<PlainArray> ReadPlainArray(ByteSlices message);

// `message` must live as long as the result. BAD_MESSAGE also if a request of a stream contains none of the
// parts that it may contain.
absl::StatusOr<ParsedRequest<v1::ReduceHeader>> ParseReduceRequest(ByteSlices message);
absl::StatusOr<ParsedRequest<v1::PutArrayHeader>> ParsePutArrayRequest(ByteSlices message);
absl::StatusOr<ParsedSegmentsRequest> ParseReduceSegmentsRequest(ByteSlices message);
absl::StatusOr<ParsedArray> ParseReduceArrayRequest(ByteSlices message);

// Any other request, of at most `most_fields` fields, parsed by protobuf alone.
absl::Status ParseWhole(ByteSlices message, std::size_t most_fields, google::protobuf::Message* request);
// The same for a request of at most kMaxSmallRequestBytes; RESOURCE_EXHAUSTED (MESSAGE_TOO_LARGE) for others.
absl::Status ParseSmall(ByteSlices message, google::protobuf::Message* request);

}  // namespace warpfold::server
