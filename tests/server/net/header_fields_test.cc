// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/header_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"

namespace warpfold::server {
namespace {

// The number of fields in the block that these hexadecimal digits stand for, in pieces of any length.
int FieldsIn(const std::string& digits, bool has_priority = false) {
  const std::string block = absl::HexStringToBytes(digits);
  HeaderFields fields;
  int count = -1;
  for (std::size_t piece = 1; piece <= block.size(); ++piece) {
    fields.Begin(has_priority);
    for (std::size_t at = 0; at < block.size(); at += piece) {
      fields.Take(std::as_bytes(std::span(block).subspan(at, std::min(piece, block.size() - at))));
    }
    if (count < 0) count = fields.count();
    EXPECT_EQ(fields.count(), count) << "in pieces of " << piece;
  }
  return count;
}

std::string Digits(const std::string& bytes) { return absl::BytesToHexString(bytes); }

// The requests of RFC 7541, appendices C.2 to C.4.
TEST(HeaderFieldsTest, AreThoseOfTheStandardsExamples) {
  EXPECT_EQ(FieldsIn("400a637573746f6d2d6b65790d637573746f6d2d686561646572"), 1);
  EXPECT_EQ(FieldsIn("040c2f73616d706c652f70617468"), 1);
  EXPECT_EQ(FieldsIn("100870617373776f726406736563726574"), 1);
  EXPECT_EQ(FieldsIn("82"), 1);
  EXPECT_EQ(FieldsIn("828684410f7777772e6578616d706c652e636f6d"), 4);
  EXPECT_EQ(FieldsIn("828684be58086e6f2d6361636865"), 5);
  EXPECT_EQ(FieldsIn("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565"), 5);
  EXPECT_EQ(FieldsIn("828684418cf1e3c2e5f23a6ba0ab90f4ff"), 4);
  EXPECT_EQ(FieldsIn("828684be5886a8eb10649cbf"), 5);
  EXPECT_EQ(FieldsIn("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"), 5);
}

TEST(HeaderFieldsTest, NumbersMayHaveSeveralBytes) {
  EXPECT_EQ(FieldsIn("ff8001ff0082"), 3) << "fields of the tables";
  EXPECT_EQ(FieldsIn("7f000161"
                     "0f000161"
                     "1fff010161"),
            3)
      << "names of the tables";
  EXPECT_EQ(FieldsIn("3fe11f82"), 1) << "a size of the dynamic table is no field";
  EXPECT_EQ(FieldsIn("202082"), 1);
  // Strings of 127 bytes, and of 127 + 0x81, whose number has three.
  EXPECT_EQ(FieldsIn("00"
                     "7f00" +
                     Digits(std::string(127, '\x82')) + "0162" + "82"),
            2);
  EXPECT_EQ(FieldsIn("0f10"
                     "ff8101" +
                     Digits(std::string(127 + 0x81, '\x82')) + "8282"),
            3);
}

TEST(HeaderFieldsTest, StringsMayBeEmpty) {
  EXPECT_EQ(FieldsIn("000000"
                     "000000"
                     "0400"
                     "82"),
            4);
  EXPECT_EQ(FieldsIn("00016100"
                     "00000162"
                     "0400"),
            3);
}

TEST(HeaderFieldsTest, APriorityIsNone) {
  EXPECT_EQ(FieldsIn("8282828282"
                     "8286",
                     true),
            2);
  EXPECT_EQ(FieldsIn("8282828282"
                     "8286",
                     false),
            7);
}

TEST(HeaderFieldsTest, EachBlockBeginsAnew) {
  HeaderFields fields;
  fields.Begin(false);
  const std::string begun = absl::HexStringToBytes("82007f");
  fields.Take(std::as_bytes(std::span(begun)));
  EXPECT_EQ(fields.count(), 2);
  fields.Begin(false);
  EXPECT_EQ(fields.count(), 0);
  fields.Take(std::as_bytes(std::span(begun)).first(1));
  EXPECT_EQ(fields.count(), 1);
}

}  // namespace
}  // namespace warpfold::server
