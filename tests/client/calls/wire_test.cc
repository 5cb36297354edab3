// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the hand-made messages with the generated parser.
#include "client/calls/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/calls/lent_memory.h"

namespace warpfold {
namespace {

// Every length at which a varint grows by a byte, and its neighbours.
const std::vector<std::size_t> kSizes = {0,     1,     115,     116,     119,     120,     126,    127,
                                         128,   129,   16373,   16374,   16378,   16379,   16383,  16384,
                                         16385, 65536, 1000003, 1 << 20, 2097140, 2097152, 3 << 20};

std::string Bytes(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

std::string Flat(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

TEST(WireTest, ChunkEqualsTheGeneratedMessage) {
  for (const std::size_t size : kSizes) {
    const std::string data = Bytes(size);
    v1::ReduceRequest expected;
    *expected.mutable_chunk()->mutable_data() = data;
    const std::string flat = Flat(ChunkMessage(grpc::Slice(data)));
    v1::ReduceRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(flat)) << size;
    EXPECT_EQ(parsed.chunk().data(), data) << size;
    // The generated serializer omits empty data; both ways are legal.
    if (size != 0) {
      EXPECT_EQ(flat, expected.SerializeAsString()) << size;
    }
  }
}

TEST(WireTest, ArrayEqualsTheGeneratedMessage) {
  for (const std::size_t size : kSizes) {
    v1::ReduceArrayRequest request;
    request.mutable_spec()->add_operators(v1::OPERATOR_SUM);
    request.mutable_spec()->set_element_type(v1::ELEMENT_TYPE_FLOAT64);
    request.set_request_id("a");
    const std::string data = Bytes(size);
    const std::string flat = Flat(ArrayMessage(request, grpc::Slice(data)));
    *request.mutable_data() = data;
    if (size != 0) {
      EXPECT_EQ(flat, request.SerializeAsString()) << size;
    }
    v1::ReduceArrayRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(flat));
    EXPECT_EQ(parsed.data(), data);
  }
}

TEST(WireTest, DataIsNotCopied) {
  const std::vector<std::byte> data(1 << 20);
  const Connection connection("unix:/unused", {});
  LentMemory memory(connection);
  std::vector<grpc::Slice> slices;
  {
    const grpc::ByteBuffer message = ChunkMessage(memory.Lend(data));
    ASSERT_TRUE(message.Dump(&slices).ok());
  }
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), data.data());
  EXPECT_FALSE(memory.AwaitReturn(absl::ZeroDuration()));
  slices.clear();
  EXPECT_TRUE(memory.AwaitReturn(absl::ZeroDuration()));
}

TEST(WireTest, OwnedChunkMayBeShorterThanItsMemory) {
  OwnedChunk chunk = std::make_unique<std::byte[]>(100);
  chunk[0] = std::byte{42};
  const grpc::Slice slice = SliceOf(std::move(chunk), 10);
  EXPECT_EQ(slice.size(), 10u);
  EXPECT_EQ(*slice.begin(), 42);
}

TEST(WireTest, ParseRefusesWhatIsNoMessage) {
  v1::ReduceResponse response;
  const grpc::Slice slices[] = {grpc::Slice(std::string("\x0a\x7f")), grpc::Slice(std::string("short"))};
  EXPECT_FALSE(Parse(grpc::ByteBuffer(slices, 2), response));
  EXPECT_TRUE(Parse(Serialize(v1::ReduceResponse()), response));
}

}  // namespace
}  // namespace warpfold
