// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/wire.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <array>
#include <string>

namespace warpfold {
namespace {

// Field 15, length-delimited: the chunk in ReduceRequest, and data in ReduceChunk and ReduceArrayRequest.
constexpr char kField15 = (15 << 3) | 2;
// ReduceChunk.crc32c: field 1, 32 bits.
constexpr char kCrc32cField = (1 << 3) | 5;

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

grpc::ByteBuffer ChunkMessage(const grpc::Slice& data, std::optional<std::uint32_t> crc32c) {
  std::string chunk;
  if (crc32c.has_value()) {
    chunk.push_back(kCrc32cField);
    for (int shift = 0; shift < 32; shift += 8) chunk.push_back(static_cast<char>(*crc32c >> shift));
  }
  chunk.push_back(kField15);
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
