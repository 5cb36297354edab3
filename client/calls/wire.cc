// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/wire.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <array>
#include <string>
#include <utility>

#include "client/connections/status.h"

namespace warpfold {
namespace {

// Field 15, length-delimited: the chunk in requests of a stream, and data in ReduceChunk and
// ReduceArrayRequest.
constexpr char kField15 = (15 << 3) | 2;

void AppendVarint(std::uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

grpc::ByteBuffer Join(const std::string& prefix, const grpc::Slice& data) {
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(prefix), data};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

grpc::Slice SliceOf(OwnedChunk chunk, std::size_t size) {
  return grpc::Slice(chunk.release(), size, [](void* bytes) { delete[] static_cast<std::byte*>(bytes); });
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

bool Parse(grpc::ByteBuffer buffer, google::protobuf::MessageLite& message) {
  grpc::ProtoBufferReader reader(&buffer);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

absl::Status ParseAnswer(grpc::ByteBuffer buffer, google::protobuf::MessageLite& message) {
  if (Parse(std::move(buffer), message)) return absl::OkStatus();
  return MakeMismatch("it is not readable");
}

grpc::ByteBuffer ChunkMessage(const grpc::Slice& data) {
  std::string chunk(1, kField15);
  AppendVarint(data.size(), chunk);

  std::string prefix(1, kField15);
  AppendVarint(chunk.size() + data.size(), prefix);
  return Join(prefix + chunk, data);
}

grpc::ByteBuffer ArrayMessage(const v1::ReduceArrayRequest& request, const grpc::Slice& data) {
  std::string prefix = request.SerializeAsString();
  prefix.push_back(kField15);
  AppendVarint(data.size(), prefix);
  return Join(prefix, data);
}

}  // namespace warpfold
