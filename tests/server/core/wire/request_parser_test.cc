// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/request_parser.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/error.h"
#include "server/core/limits.h"
#include "server/core/wire/wire_guard.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold::server {
namespace {

using google::protobuf::util::MessageDifferencer;

std::string Flat(ByteSlices slices) {
  std::string flat;
  for (const ByteSlice slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  }
  return flat;
}

// A parsed request as the message from which it came.
v1::ReduceRequest Rebuild(const ParsedRequest<v1::ReduceHeader>& parsed) {
  v1::ReduceRequest request;
  if (const auto* header = std::get_if<v1::ReduceHeader>(&parsed)) *request.mutable_header() = *header;
  if (const auto* commit = std::get_if<v1::ReduceCommit>(&parsed)) *request.mutable_commit() = *commit;
  if (const auto* chunk = std::get_if<ParsedChunk>(&parsed)) {
    v1::ReduceChunk& out = *request.mutable_chunk();
    if (chunk->crc32c.has_value()) out.set_crc32c(*chunk->crc32c);
    out.set_data(Flat(chunk->data));
  }
  return request;
}

// Unknown fields have no meaning, so nothing promises to keep them.
template <typename Request>
bool MeanTheSame(Request a, Request b) {
  a.DiscardUnknownFields();
  b.DiscardUnknownFields();
  return MessageDifferencer::Equals(a, b);
}

// The parser must accept what protobuf accepts, with the same content, and reject everything else.
void ExpectLikeProtobuf(const std::string& bytes, const std::vector<std::size_t>& cuts = {}) {
  v1::ReduceRequest reference;
  const bool legal =
      reference.ParseFromString(bytes) && reference.message_case() != v1::ReduceRequest::MESSAGE_NOT_SET;
  const auto parsed = ParseReduceRequest(Cut(bytes, cuts));
  ASSERT_EQ(parsed.ok(), legal) << parsed.status();
  if (!legal) {
    EXPECT_EQ(kernels::ErrorReason(parsed.status()), "BAD_MESSAGE");
    return;
  }
  EXPECT_TRUE(MeanTheSame(Rebuild(*parsed), reference));
}

std::vector<v1::ReduceRequest> Samples() {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MIN}, v1::ELEMENT_TYPE_FLOAT64);
  header.mutable_header()->set_request_id("abc");
  header.mutable_header()->set_expected_element_count(1234567);
  v1::ReduceRequest commit = Commit(300, 1200);
  commit.mutable_commit()->set_crc32c(0xdeadbeef);
  v1::ReduceRequest chunk = Chunk("0123456789abcdef", 16);
  v1::ReduceRequest checked = chunk;
  checked.mutable_chunk()->set_crc32c(0x01020304);
  v1::ReduceRequest checked_empty;
  checked_empty.mutable_chunk()->set_crc32c(0);
  v1::ReduceRequest empty;
  empty.mutable_chunk();
  const v1::ReduceRequest long_chunk = Chunk(std::vector<char>(300, 'x'));
  return {header, commit, chunk, checked, checked_empty, empty, long_chunk};
}

TEST(RequestParserTest, EveryTwoCutsOfEveryKindGiveTheSame) {
  for (const v1::ReduceRequest& sample : Samples()) {
    const std::string bytes = sample.SerializeAsString();
    const std::size_t step = bytes.size() > 100 ? 7 : 1;
    for (std::size_t first = 0; first <= bytes.size(); first += step) {
      for (std::size_t second = first; second <= bytes.size(); second += step) {
        ExpectLikeProtobuf(bytes, {first, second});
      }
    }
  }
}

TEST(RequestParserTest, AChunkIsReadInPlace) {
  const std::string bytes = Chunk("0123456789abcdef", 16).SerializeAsString();
  const auto parsed = ParseReduceRequest(Cut(bytes, {8}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto& chunk = std::get<ParsedChunk>(*parsed);
  EXPECT_EQ(chunk.owned, nullptr);
  ASSERT_EQ(chunk.data.size(), 2u);
  EXPECT_EQ(chunk.data[0].data(), AsBytes(bytes).data() + 4);
  EXPECT_EQ(chunk.data[1].data(), AsBytes(bytes).data() + 8);
}

TEST(RequestParserTest, EveryTruncationIsLikeProtobuf) {
  for (const v1::ReduceRequest& sample : Samples()) {
    const std::string bytes = sample.SerializeAsString();
    for (std::size_t size = 0; size <= bytes.size(); ++size) ExpectLikeProtobuf(bytes.substr(0, size));
  }
}

// Layouts that our client never writes, but that mean something to protobuf.
TEST(RequestParserTest, LegalLayoutsOfOtherWriters) {
  using std::string_literals::operator""s;
  const std::string chunk = Chunk("abcd", 4).SerializeAsString();
  const std::string header = Header({v1::OPERATOR_MAX}).SerializeAsString();
  const std::string commit = Commit(1, 4).SerializeAsString();
  const std::string cases[] = {
      "\x7a\x0b\x7a\x04"s + "abcd" + "\x0d\x01\x02\x03\x04"s,   // the checksum after the data
      "\x7a\x08\x7a\x02"s + "ab" + "\x7a\x02"s + "cd",          // data twice: the last wins
      "\x7a\x04\x7a\x02"s + "ab" + "\x7a\x04\x7a\x02"s + "cd",  // chunk twice: merged
      "\x7a\x05\x0d\x01\x02\x03\x04\x7a\x04\x7a\x02"s + "cd",   // checksum in one, data in the other
      "\x7a\x86\x80\x00\x7a\x04"s + "abcd",                     // a length in more bytes than it needs
      "\x7a\x08\x7a\x84\x80\x00"s + "abcd",                     // likewise, of the data (cut short)
      "\x7a\x09\x08\x05\x10\x07\x7a\x03"s + "abc",              // unknown fields before the data
      chunk + "\x98\x06\x01"s,                                  // an unknown field after the chunk
      "\x98\x06\x01"s + chunk,                                  // and before it
      chunk + header,
      header + chunk,
      commit + chunk + commit,
      header + header,
      chunk + "\x83\x01\x84\x01"s,  // an unknown group
      ""s,
      "\x98\x06\x01"s,  // no member of the oneof
  };
  for (const std::string& bytes : cases) {
    SCOPED_TRACE(testing::PrintToString(bytes));
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) ExpectLikeProtobuf(bytes, {cut});
  }
}

TEST(RequestParserTest, RandomMutationsAreLikeProtobuf) {
  std::mt19937 random(20240607);  // NOLINT(cert-msc51-cpp): the same cases on every run
  const auto below = [&](std::size_t n) { return random() % n; };
  const std::vector<v1::ReduceRequest> samples = Samples();
  const QuietProtobuf quiet;
  for (int round = 0; round < 100000; ++round) {
    std::string bytes = samples[below(samples.size())].SerializeAsString();
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(bytes.size() + 1);
      const char byte = static_cast<char>(below(4) == 0 ? 0x7a : below(256));
      switch (below(4)) {
        case 0:
          bytes.insert(at, 1, byte);
          break;
        case 1:
          bytes.erase(at, 1 + below(3));
          break;
        case 2:
          if (at < bytes.size()) bytes[at] = byte;
          break;
        default:
          bytes += samples[below(samples.size())].SerializeAsString();
      }
    }
    SCOPED_TRACE(testing::PrintToString(bytes));
    ASSERT_NO_FATAL_FAILURE(ExpectLikeProtobuf(bytes, {below(bytes.size() + 1)}));
  }
}

std::string Varint(std::size_t value) {
  std::string varint;
  for (; value >= 0x80; value >>= 7) varint += static_cast<char>(0x80 | (value & 0x7f));
  return varint + static_cast<char>(value);
}

// The limit is on the payload; its framing makes no difference.
TEST(RequestParserTest, PayloadsUpToTheLimit) {
  for (const bool in_place : {true, false}) {
    for (const int beyond : {-1, 0, 1}) {
      v1::ReduceRequest request = Chunk(std::vector<char>(kMaxPayloadBytes + beyond));
      request.mutable_chunk()->set_crc32c(1);
      std::string bytes = request.SerializeAsString();
      if (!in_place) bytes += "\x98\x06\x01";  // an unknown field
      const auto parsed = ParseReduceRequest(Cut(bytes, {bytes.size() / 2}));
      ASSERT_EQ(parsed.ok(), beyond <= 0) << parsed.status();
      if (parsed.ok()) {
        EXPECT_EQ(std::get<ParsedChunk>(*parsed).owned == nullptr, in_place);
        EXPECT_EQ(TotalBytes(std::get<ParsedChunk>(*parsed).data), kMaxPayloadBytes + beyond);
      } else {
        EXPECT_EQ(parsed.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_EQ(kernels::ErrorReason(parsed.status()), "MESSAGE_TOO_LARGE");
      }
    }
  }
}

TEST(RequestParserTest, WhatSurroundsThePayloadIsLimitedToo) {
  for (const int beyond : {-1, 0, 1}) {
    const std::string data(1000, 'd');
    std::string bytes = Chunk(data.data(), data.size()).SerializeAsString() + "\x9a\x06";
    const std::size_t padding = kMaxFramingBytes + beyond - (bytes.size() - data.size()) - 3;
    bytes += Varint(padding) + std::string(padding, 'x');
    ASSERT_EQ(bytes.size(), data.size() + kMaxFramingBytes + beyond);
    const auto parsed = ParseReduceRequest(Cut(bytes, {}));
    EXPECT_EQ(parsed.ok(), beyond <= 0) << parsed.status();
    if (beyond > 0) {
      EXPECT_EQ(kernels::ErrorReason(parsed.status()), "MESSAGE_TOO_LARGE");
    }
  }
}

// A header is kept as long as its stream lives.
TEST(RequestParserTest, HeadersAndCommitsAreNoLargerThanWhatSurroundsData) {
  v1::ReduceRequest header;
  header.mutable_header()->set_request_id("r");
  v1::ReduceRequest commit;
  commit.mutable_commit()->set_element_count(1);
  for (const v1::ReduceRequest& request : {header, commit}) {
    for (const int beyond : {-1, 0, 1}) {
      std::string bytes = request.SerializeAsString() + "\x9a\x06";
      const std::size_t padding = kMaxFramingBytes + beyond - bytes.size() - 3;
      bytes += Varint(padding) + std::string(padding, 'x');
      ASSERT_EQ(bytes.size(), kMaxFramingBytes + beyond);
      const auto parsed = ParseReduceRequest(Cut(bytes, {}));
      EXPECT_EQ(kernels::ErrorReason(parsed.status()), beyond <= 0 ? "" : "MESSAGE_TOO_LARGE");
    }
  }
}

// Protobuf takes 30 times as long for a byte of unknown fields as the server does for a byte of an array.
TEST(RequestParserTest, RequestsOfStreamsHaveFewFields) {
  v1::ReduceRequest request;
  request.mutable_header()->set_request_id("r");
  const std::string header = request.SerializeAsString();  // two fields
  std::string bytes = header;
  for (std::size_t i = 2; i < kMaxStreamFields; ++i) bytes += "\x9a\x06" + std::string(1, '\0');
  EXPECT_TRUE(ParseReduceRequest(Cut(bytes, {})).ok());
  bytes += "\x9a\x06" + std::string(1, '\0');
  EXPECT_EQ(kernels::ErrorReason(ParseReduceRequest(Cut(bytes, {})).status()), "BAD_MESSAGE");
}

TEST(RequestParserTest, OtherRequestsAreParsedWhole) {
  v1::MergeRequest request;
  request.add_states()->set_element_count(7);
  const std::string bytes = request.SerializeAsString();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    v1::MergeRequest parsed;
    ASSERT_TRUE(ParseWhole(Cut(bytes, {cut}), kMaxFields, &parsed).ok());
    EXPECT_TRUE(MessageDifferencer::Equals(parsed, request));
    if (cut == 0 || cut == bytes.size()) continue;
    v1::MergeRequest none;
    EXPECT_EQ(kernels::ErrorReason(ParseWhole(Cut(bytes.substr(0, cut), {}), kMaxFields, &none)),
              "BAD_MESSAGE");
  }
  request.mutable_states(0)->add_nodes()->add_operator_states(std::string(kMaxPayloadBytes, 'x'));
  const std::string fits = request.SerializeAsString();
  EXPECT_TRUE(ParseWhole(Cut(fits, {}), kMaxFields, &request).ok());
  request.mutable_states(0)->mutable_nodes(0)->add_operator_states(std::string(kMaxFramingBytes, 'x'));
  const std::string large = request.SerializeAsString();
  EXPECT_EQ(kernels::ErrorReason(ParseWhole(Cut(large, {}), kMaxFields, &request)), "MESSAGE_TOO_LARGE");
}

// Otherwise a call that takes no turns could keep the thread busy for milliseconds.
TEST(RequestParserTest, SmallRequestsAreSmall) {
  v1::GetArrayRequest request;
  request.set_token(std::string(kMaxSmallRequestBytes - 3, 'a'));
  std::string bytes = request.SerializeAsString();
  ASSERT_EQ(bytes.size(), kMaxSmallRequestBytes);
  EXPECT_TRUE(ParseSmall(Cut(bytes, {}), &request).ok());
  bytes += std::string("\x78\x01", 2);  // an unknown field
  EXPECT_EQ(kernels::ErrorReason(ParseSmall(Cut(bytes, {}), &request)), "MESSAGE_TOO_LARGE");
}

}  // namespace
}  // namespace warpfold::server
