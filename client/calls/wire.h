// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages as gRPC sends them. The array's bytes are a separate slice, after a small slice with the fields
// before them, so that they are never copied; reduction.proto puts them last for this reason. Internal.
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

// The same for a server's response: INTERNAL.
absl::Status ParseAnswer(grpc::ByteBuffer buffer, google::protobuf::MessageLite& message);

// A request with a chunk, which is field 15 of ReduceRequest, PutArrayRequest and ReduceSegmentsRequest
// alike.
grpc::ByteBuffer ChunkMessage(const grpc::Slice& data);

// `request`, which has no data, with `data`.
grpc::ByteBuffer ArrayMessage(const v1::ReduceArrayRequest& request, const grpc::Slice& data);

}  // namespace warpfold
