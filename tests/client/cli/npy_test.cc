// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the .npy reader accepts, and the name of the reason for each way in which a file can be wrong.
#include "client/cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpfold::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file of the given version with header text and data, as NumPy lays it out but without padding.
std::string File(int major, const std::string& header, std::size_t data_bytes, int minor = 0) {
  std::string file = "\x93NUMPY";
  file.push_back(static_cast<char>(major));
  file.push_back(static_cast<char>(minor));
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file.push_back(static_cast<char>(header.size() >> (8 * i)));
  return file + header + std::string(data_bytes, '\x01');
}

std::string Header(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n";
}

absl::StatusOr<NpyArray> Parse(const std::string& file) { return ParseNpy(std::as_bytes(std::span(file))); }

TEST(NpyTest, ReadsAllVersions) {
  for (const int major : {1, 2, 3}) {
    const std::string file = File(major, Header("<f8", "False", "(3, 4)"), 96);
    const absl::StatusOr<NpyArray> array = Parse(file);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->type, ElementType::kFloat64);
    EXPECT_THAT(array->shape, ElementsAre(3, 4));
    EXPECT_EQ(array->data.size(), 96u);
    EXPECT_EQ(reinterpret_cast<const char*>(array->data.data()), file.data() + file.size() - 96);
  }
}

TEST(NpyTest, ReadsAllTypes) {
  const std::vector<std::pair<std::string, ElementType>> types = {
      {"<i4", ElementType::kInt32},  {"<i8", ElementType::kInt64},   {"<u4", ElementType::kUint32},
      {"<u8", ElementType::kUint64}, {"<f4", ElementType::kFloat32}, {"<f8", ElementType::kFloat64}};
  for (const auto& [descr, type] : types) {
    const absl::StatusOr<NpyArray> array =
        Parse(File(1, Header(descr, "False", "(2,)"), 2 * ElementTypeBytes(type)));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->type, type);
  }
}

TEST(NpyTest, AByteHasNoOrder) {
  for (const auto& [descr, type] : std::vector<std::pair<std::string, ElementType>>{
           {"i1", ElementType::kInt8}, {"u1", ElementType::kUint8}, {"b1", ElementType::kBool}}) {
    for (const char* order : {"|", "<", ">", "=", ""}) {
      const absl::StatusOr<NpyArray> array = Parse(File(1, Header(order + descr, "False", "(2,)"), 2));
      ASSERT_TRUE(array.ok()) << array.status();
      EXPECT_EQ(array->type, type);
    }
    for (const char* no_order : {"!", "<<", " "}) {
      EXPECT_FALSE(Parse(File(1, Header(no_order + descr, "False", "(2,)"), 2)).ok()) << no_order;
    }
  }
}

// As numpy.dtype reads them: the machine's order.
TEST(NpyTest, TheOrderMayBeLeftOut) {
  for (const char* descr : {"i4", "=i4", "|i4", "<i4"}) {
    const absl::StatusOr<NpyArray> array = Parse(File(1, Header(descr, "False", "(2,)"), 8));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->type, ElementType::kInt32);
  }
}

TEST(NpyTest, ReadsShapesAtTheEdge) {
  EXPECT_TRUE(Parse(File(1, Header("<i4", "False", "()"), 4)).ok());
  EXPECT_TRUE(Parse(File(1, Header("<i4", "False", "(0,)"), 0)).ok());
  EXPECT_TRUE(Parse(File(1, Header("<i4", "False", "(5, 0, 3)"), 0)).ok());
  EXPECT_TRUE(Parse(File(1, Header("<i4", "True", "(2,)"), 8)).ok());
  for (const char* shape : {"(6, 1)", "(1, 6)", "(1, 6, 1)", "(6,)"}) {
    EXPECT_TRUE(Parse(File(1, Header("<f4", "True", shape), 24)).ok()) << shape;
  }
  EXPECT_TRUE(Parse(File(1, Header("<f4", "True", "(3, 0, 2)"), 0)).ok());
  EXPECT_TRUE(Parse(File(1, Header("<i4", "False", "(1, 2, 1, 2)"), 16)).ok());
}

TEST(NpyTest, KeysMayComeInAnyOrderAndQuotes) {
  EXPECT_TRUE(Parse(File(1, R"({"shape":(1,),"descr":"<i4","fortran_order":False})", 4)).ok());
}

TEST(NpyTest, ReadsALongHeader) {
  std::string text = Header("<i4", "False", "(2,)");
  text.insert(text.size() - 1, std::string((64 << 10) - text.size(), ' '));
  EXPECT_TRUE(Parse(File(2, text, 8)).ok());
}

TEST(NpyTest, RefusesByNameOfTheReason) {
  const std::string good = File(1, Header("<i4", "False", "(2,)"), 8);
  const std::string text = Header("<i4", "False", "(2,)");
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "not an .npy file"},
      {"PK\x03\x04 a zip file", "not an .npy file"},
      {"\x93NUMP", "not an .npy file"},
      {"\x93NUMPY", "truncated"},
      {good.substr(0, 9), "truncated"},
      {good.substr(0, 20), "truncated"},
      {good.substr(0, good.size() - 1), "truncated: the header announces 8 bytes of data, the input has 7"},
      {good + "x", "too long: the header announces 8 bytes of data, the input has 9"},
      {File(4, text, 8), "unsupported .npy version 4.0"},
      {File(0, text, 8), "unsupported .npy version 0.0"},
      {File(1, text, 8, 1), "unsupported .npy version 1.1"},
      {File(2, std::string(70'000, ' '), 8), "header of 70000 bytes"},
      {File(1, Header(">i4", "False", "(2,)"), 8), "big-endian"},
      {File(1, Header(">f8", "False", "(2,)"), 16), "big-endian"},
      {File(1, Header("<f4", "True", "(2, 2)"), 16), "Fortran-ordered"},
      {File(2, std::string((64 << 10) + 1, ' '), 8), "header of 65537 bytes"},
      {File(1, Header("", "False", "(2,)"), 8), "unsupported dtype ''"},
      {File(1, Header("<c8", "False", "(2,)"), 4), "unsupported dtype '<c8'"},
      {File(1, Header("|S1", "False", "(2,)"), 2), "unsupported dtype '|S1'"},
      {File(1, Header("<c16", "False", "(2,)"), 32), "unsupported dtype '<c16'"},
      {File(1, Header("|O", "False", "(2,)"), 16), "unsupported dtype '|O'"},
      {File(1, Header("<U3", "False", "(2,)"), 24), "unsupported dtype '<U3'"},
      {File(1, "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,)}", 8),
       "unsupported dtype: a structure"},
      {File(1, Header("<i4", "False", "(4294967296, 4294967296)"), 8), "overflows"},
      {File(1, Header("<i4", "False", "(2)"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "False", "(-2,)"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "False", "(2 2)"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "False", "(02,)"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "False", "(1, 002)"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "False", "(99999999999999999999,)"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "False", "[2]"), 8), "shape is not a tuple"},
      {File(1, Header("<i4", "false", "(2,)"), 8), "fortran_order is not a truth value"},
      {File(1, "{'descr': '<i4', 'shape': (2,)}", 8), "a key is missing"},
      {File(1, "{'descr': '<i4', 'descr': '<i4'}", 8), "unexpected key 'descr'"},
      {File(1, "{'descr': '<i4', 'extra': 1}", 8), "unexpected key 'extra'"},
      {File(1, "{'descr': '<i4' 'shape': (2,)}", 8), "expected a comma"},
      {File(1, "{descr: '<i4'}", 8), "expected a key"},
      {File(1, "{'descr': '<i4", 8), "descr is not a string"},
      {File(1, "[]", 8), "not a dictionary"},
      {File(1, "", 8), "not a dictionary"},
      {File(1, text + "x", 8), "text after the dictionary"},
  };
  for (const auto& [file, reason] : table) {
    const absl::StatusOr<NpyArray> array = Parse(file);
    EXPECT_FALSE(array.ok()) << reason;
    EXPECT_THAT(std::string(array.status().message()), HasSubstr(reason));
  }
}

// Whatever the bytes, the reader returns: every header with one byte changed, and every prefix.
TEST(NpyTest, SurvivesEveryChangedByte) {
  const std::string good = File(1, Header("<i4", "False", "(2,)"), 8);
  for (std::size_t i = 0; i < good.size() - 8; ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string file = good;
      file[i] = static_cast<char>(byte);
      const absl::StatusOr<NpyArray> array = Parse(file);
      if (array.ok()) {
        EXPECT_EQ(array->data.size(), 8u);
      }
    }
    EXPECT_FALSE(Parse(good.substr(0, i)).ok());
  }
}

}  // namespace
}  // namespace warpfold::cli
