// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/wire_guard.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/error.h"
#include "server/core/wire/request_parser.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using std::string_literals::operator""s;

constexpr std::size_t kLimit = 1000;

// Nothing for bytes that are not a MergeRequest.
std::optional<std::size_t> Count(const std::string& bytes, std::size_t limit = kLimit) {
  return CountFields(bytes, *v1::MergeRequest::descriptor(), limit);
}

std::string Repeated(const std::string& bytes, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += bytes;
  return all;
}

TEST(WireGuardTest, CountsFieldsInSubmessagesToo) {
  EXPECT_EQ(Count(""), 0u);
  v1::MergeRequest request;
  request.set_return_state(true);
  EXPECT_EQ(Count(request.SerializeAsString()), 1u);
  v1::PartialState& state = *request.add_states();
  EXPECT_EQ(Count(request.SerializeAsString()), 2u);
  state.set_element_count(5);
  state.add_nodes()->set_level(3);
  EXPECT_EQ(Count(request.SerializeAsString()), 5u);
  state.mutable_nodes(0)->add_operator_states("not a message: \x0a\x00"s);
  EXPECT_EQ(Count(request.SerializeAsString()), 6u);
  // Packed: one field, four bytes.
  for (int i = 0; i < 4; ++i) request.mutable_spec()->add_operators(v1::OPERATOR_SUM);
  EXPECT_EQ(Count(request.SerializeAsString()), 8u);
}

TEST(WireGuardTest, StopsBehindTheLimit) {
  for (const std::size_t fields : {kLimit - 1, kLimit, kLimit + 1, 5 * kLimit}) {
    const std::size_t expected = std::min(fields, kLimit + 1);
    EXPECT_EQ(Count(Repeated("\x12\x00"s, fields)), expected);
    EXPECT_EQ(Count(Repeated("\x18\x01"s, fields)), expected);
    // In one submessage, whose own field counts, too.
    v1::MergeRequest nested;
    for (std::size_t i = 1; i < fields; ++i) {
      if (nested.states().empty()) nested.add_states();
      nested.mutable_states(0)->add_nodes();
    }
    EXPECT_EQ(Count(nested.SerializeAsString()), expected);
  }
}

TEST(WireGuardTest, CountsUnknownFields) {
  EXPECT_EQ(Count("\x98\x06\x01"s), 1u);                  // a varint
  EXPECT_EQ(Count("\x9a\x06\x04\x12\x00\x12\x00"s), 1u);  // bytes, whatever is in them
  EXPECT_EQ(Count("\x9d\x06"s + "abcd" + "\x99\x06"s + "abcdefgh"), 2u);
}

// Protobuf makes an object of every field in an unknown group, above all of groups.
TEST(WireGuardTest, CountsFieldsInUnknownGroups) {
  EXPECT_EQ(Count("\x83\x01\x84\x01"s), 1u);
  EXPECT_EQ(Count("\x83\x01\x08\x01\x08\x01\x84\x01\x18\x01"s), 4u);
  EXPECT_EQ(Count("\x83\x01"s + Repeated("\x0b\x0c"s, 10) + "\x84\x01"s), 11u);
  EXPECT_EQ(Count("\x83\x01"s + Repeated("\x0b\x0c"s, 5 * kLimit) + "\x84\x01"s), kLimit + 1);
  EXPECT_EQ(Count("\x12\x04\x83\x01\x84\x01"s), 2u) << "in a submessage";
  // Bytes in a group belong to no known field, even if the message has a field with their number.
  EXPECT_EQ(Count("\x83\x01\x12\x02\x12\x00\x84\x01"s), 2u);
}

TEST(WireGuardTest, WhatIsNoMessageHasNoCount) {
  for (const std::string& bytes : {
           "\x12"s,                      // no length
           "\x12\x01"s,                  // the submessage is missing
           "\x12\xff\xff\xff\xff"s,      // the length does not end
           "\x12\x01\x12"s,              // the submessage is cut off
           "\x12\x03\x12\x02\x00"s,      // a submessage's field is longer than it
           "\x18"s,                      // no value
           "\x9d\x06"s + "abc",          // 3 of 4 bytes
           "\x00"s,                      // field 0
           "\x1e\x00"s,                  // no such wire type
           "\x84\x01"s,                  // ends a group that did not begin
           "\x83\x01"s,                  // begins one that does not end
           "\x83\x01\x0c"s,              // ends another
           "\x12\x02\x83\x01\x84\x01"s,  // a group across the end of a submessage
       }) {
    EXPECT_EQ(Count(bytes), std::nullopt) << testing::PrintToString(bytes);
  }
}

TEST(WireGuardTest, EveryTruncationIsCountedOrRefused) {
  v1::MergeRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM, v1::OPERATOR_MIN}).header().spec();
  v1::PartialState& state = *request.add_states();
  state.set_element_count(1 << 20);
  state.add_nodes()->add_operator_states(std::string(16, 'x'));
  const std::string bytes = request.SerializeAsString();
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    v1::MergeRequest parsed;
    EXPECT_EQ(Count(part).has_value(), parsed.ParseFromString(part)) << size;
  }
}

void ExpectRefused(const std::string& bytes, const char* message) {
  v1::MergeRequest request;
  const absl::Status status = ParseWhole(Cut(bytes, {bytes.size() / 2}), kMaxFields, &request);
  EXPECT_EQ(kernels::ErrorReason(status), "BAD_MESSAGE");
  EXPECT_EQ(std::string(status.message()), message);
  EXPECT_EQ(request.ByteSizeLong(), 0u) << "protobuf was not asked";
}

constexpr char kTooMany[] = "a MergeRequest has more than 262144 fields";
constexpr char kNoMessage[] = "a message is not a MergeRequest";

TEST(WireGuardTest, MillionsOfEmptyFieldsAreNotParsed) {
  ExpectRefused(Repeated("\x12\x00"s, 2'000'000), kTooMany);
  v1::MergeRequest nodes;
  nodes.add_states();
  for (int i = 0; i < 2'000'000; ++i) nodes.mutable_states(0)->add_nodes();
  ExpectRefused(nodes.SerializeAsString(), kTooMany);
  ExpectRefused("\x83\x01"s + Repeated("\x0b\x0c"s, 2'000'000) + "\x84\x01"s, kTooMany);

  v1::MergeRequest request;
  const std::string most = Repeated("\x12\x00"s, kMaxFields);
  EXPECT_TRUE(ParseWhole(Cut(most.substr(2), {}), kMaxFields, &request).ok());
  EXPECT_TRUE(ParseWhole(Cut(most, {}), kMaxFields, &request).ok());
  ExpectRefused(most + "\x12\x00"s, kTooMany);
}

// Whether or not there would be too many fields after the place where it is broken.
TEST(WireGuardTest, WhatIsNoMessageIsNamedAsSuch) {
  ExpectRefused(std::string(1'000'000, '\x07'), kNoMessage);
  ExpectRefused("\x00"s + Repeated("\x12\x00"s, 2'000'000), kNoMessage);
  v1::MergeRequest request;
  EXPECT_EQ(std::string(ParseWhole(Cut("\x12"s, {}), kMaxFields, &request).message()), kNoMessage)
      << "too short to be counted";
}

}  // namespace
}  // namespace warpfold::server
