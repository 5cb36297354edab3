// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// ReduceArray's request, read in place: the content is what protobuf reads, whatever the order of its fields.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "server/core/limits.h"
#include "server/core/wire/request_parser.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using google::protobuf::util::MessageDifferencer;

v1::ReduceArrayRequest Rebuild(const ParsedArray& parsed) {
  v1::ReduceArrayRequest request = parsed.request;
  EXPECT_TRUE(request.data().empty());
  for (const ByteSlice slice : parsed.data.data) {
    request.mutable_data()->append(reinterpret_cast<const char*>(slice.data()), slice.size());
  }
  request.mutable_spec();  // an absent spec means nothing
  request.DiscardUnknownFields();
  return request;
}

// A request that is read plainly must be valid for protobuf if its spec is, with the same content.
void ExpectPlainLikeProtobuf(const PlainArray& plain, const v1::ReduceArrayRequest& reference, bool legal) {
  ParsedArray parsed;
  const bool has_spec =
      parsed.request.mutable_spec()->ParseFromArray(plain.spec.data(), static_cast<int>(plain.spec.size()));
  ASSERT_EQ(has_spec, legal);
  if (!legal) return;
  parsed.request.set_request_id(std::string(plain.request_id));
  parsed.data.data = plain.data;
  EXPECT_TRUE(MessageDifferencer::Equals(Rebuild(parsed), reference));
}

void ExpectLikeProtobuf(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  v1::ReduceArrayRequest reference;
  const bool legal = reference.ParseFromString(bytes);
  const std::vector<ByteSlice> message = Cut(bytes, cuts);
  const std::optional<PlainArray> plain = ReadPlainArray(message);
  const auto parsed = ParseReduceArrayRequest(message);
  ASSERT_EQ(parsed.ok(), legal) << parsed.status();
  if (!legal) {
    EXPECT_EQ(kernels::ErrorReason(parsed.status()), "BAD_MESSAGE");
    if (plain.has_value()) ExpectPlainLikeProtobuf(*plain, reference, legal);
    return;
  }
  reference.mutable_spec();
  reference.DiscardUnknownFields();
  EXPECT_TRUE(MessageDifferencer::Equals(Rebuild(*parsed), reference));
  if (plain.has_value()) ExpectPlainLikeProtobuf(*plain, reference, legal);
}

// Each is a message by itself: protobuf merges what is concatenated.
std::vector<std::string> Fields() {
  v1::ReduceArrayRequest spec;
  *spec.mutable_spec() = Header({v1::OPERATOR_SUM, v1::OPERATOR_MIN}).header().spec();
  v1::ReduceArrayRequest policy;
  policy.mutable_spec()->set_nan_policy(v1::NAN_POLICY_IGNORE);
  v1::ReduceArrayRequest id;
  id.set_request_id("an id");
  v1::ReduceArrayRequest data;
  data.set_data("0123456789abcdef");
  v1::ReduceArrayRequest other_data;
  other_data.set_data(std::string(200, 'x'));
  return {spec.SerializeAsString(),
          policy.SerializeAsString(),
          id.SerializeAsString(),
          data.SerializeAsString(),
          other_data.SerializeAsString(),
          std::string("\x12\x01\xff", 3),   // an id that is no text
          std::string("\x7a\x00", 2),       // empty data
          std::string("\xfa\x00\x01z", 4),  // data, its tag in more bytes than it needs
          std::string("\x7a\x81\x00z", 4),  // its length in more bytes than it needs
          std::string("\x98\x06\x01", 3),   // unknown fields
          std::string("\x9a\x06\x02\x7a\x00", 5),
          std::string("\x83\x01\x84\x01", 4)};  // and an unknown group
}

TEST(ArrayParserTest, RandomFieldOrdersAndCutsAreLikeProtobuf) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same cases on every run
  const std::vector<std::string> fields = Fields();
  const QuietProtobuf quiet;
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes;
    for (std::size_t n = random() % 6; n > 0; --n) bytes += fields[random() % fields.size()];
    for (std::size_t edits = random() % 3; edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = random() % bytes.size();
      if (random() % 2 == 0) {
        bytes[at] = static_cast<char>(random() % 4 == 0 ? 0x7a : random() % 256);
      } else {
        bytes.erase(at, 1 + random() % 3);
      }
    }
    std::vector<std::size_t> cuts(random() % 4);
    for (std::size_t& cut : cuts) cut = random() % (bytes.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    SCOPED_TRACE(testing::PrintToString(bytes));
    ASSERT_NO_FATAL_FAILURE(ExpectLikeProtobuf(bytes, cuts));
  }
}

TEST(ArrayParserTest, TrailingDataAreReadInPlace) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
  request.set_data("0123456789abcdef");
  const std::string bytes = request.SerializeAsString();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::vector<ByteSlice> slices = Cut(bytes, {cut});
    const auto parsed = ParseReduceArrayRequest(slices);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->data.owned, nullptr);
    ASSERT_FALSE(parsed->data.data.empty());
    EXPECT_EQ(parsed->data.data[0].data(), AsBytes(bytes).data() + bytes.size() - 16);
  }
}

// Protobuf accepts at most five bytes for a length, and no length of 2 GiB or more.
TEST(ArrayParserTest, LengthsThatAreLongerThanTheyLookAreRefused) {
  using std::string_literals::operator""s;
  const std::vector<std::string> legal = {"\x02"s, "\x82\x00"s, "\x82\x80\x80\x80\x00"s};
  const std::vector<std::string> wrong = {"\x82\x80\x80\x80\x10"s,
                                          "\x82\x80\x80\x80\x70"s,
                                          "\x82\x80\x80\x80\x80\x00"s,
                                          "\x82\x80\x80\x80\x80\x01"s,
                                          "\x82\x80\x80\x80\x80\x80\x80\x80\x80\x01"s,
                                          "\x82\x80\x80\x80\x80\x80\x80\x80\x80\x7e"s};
  for (const bool is_legal : {true, false}) {
    for (const std::string& length : is_legal ? legal : wrong) {
      SCOPED_TRACE(testing::PrintToString(length));
      const std::string bytes = "\x7a" + length + "ab";
      EXPECT_EQ(v1::ReduceArrayRequest().ParseFromString(bytes), is_legal);
      ExpectLikeProtobuf(bytes, {});
      ExpectLikeProtobuf("\x12\x01x" + bytes, {4});
    }
  }
}

TEST(ArrayParserTest, PayloadsUpToTheLimit) {
  for (const bool in_place : {true, false}) {
    for (const int beyond : {-1, 0, 1}) {
      v1::ReduceArrayRequest request;
      request.set_request_id("an id");
      request.set_data(std::string(kMaxPayloadBytes + beyond, 'x'));
      std::string bytes = request.SerializeAsString();
      if (!in_place) bytes += "\x98\x06\x01";  // an unknown field
      const auto parsed = ParseReduceArrayRequest(Cut(bytes, {bytes.size() / 2}));
      ASSERT_EQ(parsed.ok(), beyond <= 0) << parsed.status();
      if (parsed.ok()) {
        EXPECT_EQ(parsed->data.owned == nullptr, in_place);
        EXPECT_EQ(TotalBytes(parsed->data.data), kMaxPayloadBytes + beyond);
      } else {
        EXPECT_EQ(kernels::ErrorReason(parsed.status()), "MESSAGE_TOO_LARGE");
      }
    }
  }
}

// So much comes before the data that the parser does not look for them: protobuf finds them.
TEST(ArrayParserTest, WhatSurroundsTheDataIsLimitedToo) {
  constexpr std::size_t kTagsAndLengths = (1 + 3) + (1 + 1);  // of the id and of the data
  for (const bool is_behind : {false, true}) {
    for (const int beyond : {-1, 0, 1}) {
      v1::ReduceArrayRequest request;
      request.set_request_id(std::string(kMaxFramingBytes - kTagsAndLengths + beyond, 'i'));
      const std::string id = request.SerializeAsString();
      const std::string data =
          "\x7a\x04"
          "abcd";
      const std::string bytes = is_behind ? data + id : id + data;
      if (beyond <= 0) {
        ExpectLikeProtobuf(bytes, {bytes.size() / 2});
      } else {
        const auto parsed = ParseReduceArrayRequest(Cut(bytes, {}));
        EXPECT_EQ(kernels::ErrorReason(parsed.status()), "MESSAGE_TOO_LARGE");
      }
    }
  }
}

// Which limit a message exceeds. A client that sends a whole payload must not look for the mistake there.
TEST(ArrayParserTest, NamesTheLimitThatIsExceeded) {
  const auto limit_of = [](std::uint64_t id_bytes, std::uint64_t data_bytes) {
    v1::ReduceArrayRequest request;
    request.set_request_id(std::string(id_bytes, 'i'));
    request.set_data(std::string(data_bytes, 'd'));
    const auto parsed = ParseReduceArrayRequest(Cut(request.SerializeAsString(), {}));
    EXPECT_EQ(kernels::ErrorReason(parsed.status()), "MESSAGE_TOO_LARGE");
    const kernels::ErrorMetadata details = kernels::ErrorDetails(parsed.status());
    return std::map<std::string, std::string>(details.begin(), details.end());
  };
  using Details = std::map<std::string, std::string>;
  EXPECT_EQ(limit_of(1, kMaxPayloadBytes + 1),
            (Details{{"limit", "max_message_bytes"}, {"value", "4194304"}}));
  EXPECT_EQ(limit_of(kMaxFramingBytes, 9), (Details{{"limit", "framing_bytes"}, {"value", "65536"}}));
  EXPECT_EQ(limit_of(kMaxFramingBytes, kMaxPayloadBytes),
            (Details{{"limit", "message_bytes"}, {"value", "4259840"}}));
}

}  // namespace
}  // namespace warpfold::server
