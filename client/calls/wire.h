// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages in the form in which gRPC sends them. An array's bytes are never copied: they are a slice of their
// own, which follows a small slice with the other fields. For this reason the field with the bytes is the
// last one of each message in the .proto files. Internal.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

using OwnedChunk = std::unique_ptr<std::byte[]>;

// A slice that owns the first `size` bytes of `chunk`.
grpc::Slice SliceOf(OwnedChunk chunk, std::size_t size);

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// False if the buffer does not hold such a message.
bool Parse(grpc::ByteBuffer buffer, google::protobuf::MessageLite& message);

// As Parse, for a response of a server: INTERNAL if the buffer does not hold such a message.
absl::Status ParseAnswer(grpc::ByteBuffer buffer, google::protobuf::MessageLite& message);

// A request with a chunk, which is field 15 of ReduceRequest, PutArrayRequest and ReduceSegmentsRequest
// alike.
grpc::ByteBuffer ChunkMessage(const grpc::Slice& data);

// The message `request`, whose field `data` must be empty, with these bytes in that field.
grpc::ByteBuffer ArrayMessage(const v1::ReduceArrayRequest& request, const grpc::Slice& data);

}  // namespace warpfold
