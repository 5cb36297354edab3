// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the command line that need no server: texts, generated arrays, shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "client/cli/generated_arrays.h"
#include "client/cli/input.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/render.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"

namespace warpfold::cli {
namespace {

// A user who looks for a limit of a server finds it, whichever it is.
TEST(RenderTest, InfoHasEveryLimit) {
  v1::GetServerInfoResponse info;
  v1::ServerLimits& limits = *info.mutable_limits();
  const google::protobuf::Descriptor& fields = *v1::ServerLimits::descriptor();
  const auto number = [](int i) { return 1'000'000 + i; };  // the limit of this field
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = fields.field(i);
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32) {
      limits.GetReflection()->SetUInt32(&limits, field, number(i));
    } else {
      limits.GetReflection()->SetUInt64(&limits, field, number(i));
    }
  }
  const std::string text = "\n" + InfoText(info);
  const std::string json = InfoJson(info);
  for (int i = 0; i < fields.field_count(); ++i) {
    const std::string& name = fields.field(i)->name();
    EXPECT_THAT(text, testing::HasSubstr(absl::StrCat("\n", name, " ", number(i), "\n")));
    EXPECT_THAT(json, testing::ContainsRegex(absl::StrCat("\"", name, "\": ?", number(i))));
  }
}

TEST(RenderTest, DoublesAreShortestAndReadBack) {
  const double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(FormatDouble(0), "0.0");
  EXPECT_EQ(FormatDouble(-0.0), "-0.0");
  EXPECT_EQ(FormatDouble(3), "3.0");
  EXPECT_EQ(FormatDouble(0.1), "0.1");
  EXPECT_EQ(FormatDouble(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(FormatDouble(100000), "100000.0");
  EXPECT_EQ(FormatDouble(9007199254740993), "9007199254740992.0");
  EXPECT_EQ(FormatDouble(1e16), "1e+16");
  EXPECT_EQ(FormatDouble(0.0001), "0.0001");
  EXPECT_EQ(FormatDouble(0.00001), "1e-05");
  EXPECT_EQ(FormatDouble(5e-324), "5e-324");
  EXPECT_EQ(FormatDouble(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(FormatDouble(std::nan("")), "nan");
  EXPECT_EQ(FormatDouble(kInfinity), "inf");
  EXPECT_EQ(FormatDouble(-kInfinity), "-inf");
}

Reduction SampleReduction() {
  Reduction reduction;
  reduction.element_count = 5;
  reduction.device = "cuda:0 \"quoted\"";
  const Matrix matrix = {{2, 3},
                         {Scalar(1.0), Scalar(2.0), Scalar(3.0), Scalar(4.0), Scalar(5.0), Scalar(HUGE_VAL)}};
  reduction.results = {
      {.name = "sum", .value = Scalar(std::numeric_limits<std::int64_t>::min())},
      {.name = "count_nonzero", .value = Scalar(std::numeric_limits<std::uint64_t>::max())},
      {.name = "argmin", .value = Scalar(-1.5), .index = 3},
      {.name = "max", .value = Scalar(std::nan(""))},
      {.name = "all", .value = Scalar(true)},
      {.name = "min", .value = matrix},
  };
  return reduction;
}

TEST(RenderTest, Text) {
  EXPECT_EQ(ReductionText(SampleReduction()),
            "sum -9223372036854775808\n"
            "count_nonzero 18446744073709551615\n"
            "argmin -1.5 index 3\n"
            "max nan\n"
            "all true\n"
            "min [[1.0, 2.0, 3.0], [4.0, 5.0, inf]]\n");
}

TEST(RenderTest, Json) {
  EXPECT_EQ(ReductionJson(SampleReduction()), R"({"element_count":5,"device":"cuda:0 \"quoted\"","results":[)"
                                              R"({"op":"sum","value":-9223372036854775808},)"
                                              R"({"op":"count_nonzero","value":18446744073709551615},)"
                                              R"({"op":"argmin","value":-1.5,"index":3},)"
                                              R"({"op":"max","value":"nan"},)"
                                              R"({"op":"all","value":true},)"
                                              R"({"op":"min","value":[[1.0,2.0,3.0],[4.0,5.0,"inf"]]}]})"
                                              "\n");
}

TEST(ProgressTest, ShowsShareRateAndRest) {
  EXPECT_EQ(ProgressLine(500'000'000, 2'000'000'000, absl::Seconds(1)),
            " 25 % [=======                       ] 0.50 GB  0.50 GB/s  3 s left");
  EXPECT_EQ(ProgressLine(500'000'000, std::nullopt, absl::Seconds(2)), "0.50 GB  0.25 GB/s");
}

TEST(ProgressTest, HasNoShareOfNothingAndNoMoreThanAll) {
  EXPECT_EQ(ProgressLine(0, 0, absl::Seconds(1)), "0.00 GB  0.00 GB/s");
  EXPECT_EQ(ProgressLine(0, 1'000'000'000, absl::Seconds(1)),
            "  0 % [                              ] 0.00 GB  0.00 GB/s  0 s left");
  // As after a retry.
  EXPECT_EQ(ProgressLine(3'000'000'000, 2'000'000'000, absl::Seconds(1)),
            "100 % [==============================] 3.00 GB  3.00 GB/s  0 s left");
}

TEST(PrintableTest, NothingSteersATerminal) {
  EXPECT_EQ(Printable("a b~"), "a b~");
  EXPECT_EQ(Printable(std::string("\0\x1b[2J\n\x7f", 7)), "\\x00\\x1b[2J\\x0a\\x7f");
  // The control characters that have two bytes, and similar ones.
  EXPECT_EQ(Printable("\xc2\x80\xc2\x9f"), "\\xc2\\x80\\xc2\\x9f");
  // A terminal of 8 bits takes a lone byte for a control character, so bytes that are not UTF-8 are shown by
  // their values.
  EXPECT_EQ(Printable("\x9b"
                      "2J"),
            "\\x9b"
            "2J");
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(Printable("\xe2"
                      "a\xf5"),
            "\\xe2"
            "a\\xf5");
  EXPECT_EQ(Printable("x\xc2"), "x\\xc2");
  for (const char* text : {"\xe0\x82\x9b", "\xed\xa0\x80", "\xf0\x80\x82\x9b", "\xf4\x90\x80\x80"})
    EXPECT_THAT(Printable(text), testing::MatchesRegex("(\\\\x[0-9a-f][0-9a-f])+")) << "byte by byte";
  for (const char* text : {"\xc2\xa0", "\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_EQ(Printable(text), text);
}

TEST(ReportTest, AnErrorsReasonIsForPrograms) {
  const auto expect = [](const absl::Status& status, int exit_code, const std::string& line) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(ReportCallError(status), exit_code);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), line);
  };
  expect(MakeError(absl::StatusCode::kInvalidArgument, reason::kEmptyArray, "no elements"), kExitServerError,
         "warpfold: INVALID_ARGUMENT (EMPTY_ARRAY): no elements\n");
  expect(BadHeader("owner is too long"), kExitUsage,
         "warpfold: INVALID_ARGUMENT (BAD_HEADER): owner is too long\n");
  expect(absl::UnavailableError("nobody is there"), kExitServerError,
         "warpfold: UNAVAILABLE: nobody is there\n");
  // A server's reason must not control a terminal either.
  expect(MakeError(absl::StatusCode::kInternal, "A\x1b[2J", "text"), kExitServerError,
         "warpfold: INTERNAL (A\\x1b[2J): text\n");
}

TEST(ArraysTest, TextAndJson) {
  ResidentArray array = {.token = std::string(16, '\xab'),
                         .id = 7,
                         .owner = "nightly \"job\"",
                         .type = ElementType::kFloat32,
                         .matrix_shape = MatrixShape{2, 3},
                         .element_count = 10,
                         .byte_count = 240,
                         .age = absl::Seconds(1.6),
                         .expires_in = absl::Seconds(599.4)};
  EXPECT_EQ(
      ArrayText(array),
      "token abababababababababababababababab\nelements 10 of 2x3\ndtype float32\nexpires_in_seconds 599\n");
  EXPECT_EQ(ArrayJson(array),
            R"({"token":"abababababababababababababababab","id":7,)"
            R"("owner":"nightly \"job\"","dtype":"float32","matrix":[2,3],"element_count":10,)"
            R"("byte_count":240,"age_seconds":2,"expires_in_seconds":599})"
            "\n");
  array.token.clear();
  array.matrix_shape.reset();
  EXPECT_EQ(ArraysText({array}),
            "array 7 owner 'nightly \\\"job\\\"' 10 float32, 240 bytes, 2 s old, expires in 599 s\n");
  EXPECT_EQ(ArraysJson({array}), R"({"arrays":[{"id":7,"owner":"nightly \"job\"","dtype":"float32",)"
                                 R"("element_count":10,"byte_count":240,"age_seconds":2,)"
                                 R"("expires_in_seconds":599}]})"
                                 "\n");
  EXPECT_EQ(ArraysJson({}), "{\"arrays\":[]}\n");
}

TEST(SummaryTest, HasNoExponents) {
  const auto amount = [](std::uint64_t byte_count, absl::Duration total) {
    const std::string text =
        SummaryText({.element_count = 1234567, .byte_count = byte_count, .total = total, .device = ""});
    return text.substr(0, text.find(" ("));
  };
  const absl::Duration kSecond = absl::Seconds(1);
  EXPECT_EQ(SummaryText({1234567, 8'000'000, absl::Milliseconds(12), "cpu"}),
            "1,234,567 elements, 8 MB, in 0.012 s (0.67 GB/s) on cpu");
  EXPECT_EQ(amount(999'499, kSecond), "1,234,567 elements, 999 kB, in 1 s");
  EXPECT_EQ(amount(999'600, kSecond), "1,234,567 elements, 1 MB, in 1 s");
  EXPECT_EQ(amount(999'700'000, kSecond), "1,234,567 elements, 1 GB, in 1 s");
  EXPECT_EQ(amount(1'235'000'000'000'000, absl::Seconds(3599.7)), "1,234,567 elements, 1.24 PB, in 3600 s");
  EXPECT_EQ(amount(~std::uint64_t{0}, absl::Seconds(999.6)), "1,234,567 elements, 18.4 EB, in 1000 s");
  EXPECT_EQ(amount(0, absl::Microseconds(12)), "1,234,567 elements, 0 kB, in 0.000012 s");
}

// Published first outputs for the seeds 0 and 1234567.
TEST(GeneratedArraysTest, SplitMix64EqualsPublishedOutputs) {
  EXPECT_EQ(SplitMix64(0, 0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(SplitMix64(1234567, 0), 6457827717110365317u);
  EXPECT_EQ(SplitMix64(1234567, 1), 3203168211198807973u);
  EXPECT_EQ(SplitMix64(1234567, 4), 16408922859458223821u);
}

TEST(GeneratedArraysTest, AnyPartIsPartOfTheWhole) {
  for (const ElementType type : {ElementType::kInt32, ElementType::kUint64, ElementType::kFloat32}) {
    for (const Generator& generator : {IotaGenerator(type), RandomGenerator(type, 42)}) {
      std::vector<std::byte> whole(4096);
      generator(0, whole);
      std::vector<std::byte> part(1000);
      generator(1024, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 1024));
    }
  }
}

TEST(GeneratedArraysTest, RandomFloatsAreInTheUnitInterval) {
  std::vector<double> values(1000);
  RandomGenerator(ElementType::kFloat64, 7)(0, std::as_writable_bytes(std::span(values)));
  for (const double value : values) EXPECT_TRUE(value >= 0 && value < 1);
  EXPECT_EQ(values[0], static_cast<double>(SplitMix64(7, 0) >> 11) * 0x1p-53);
}

// The first `count` elements, of 16 bits each.
std::vector<std::uint16_t> BitsOf(const Generator& generator, std::size_t count) {
  std::vector<std::uint16_t> bits(count);
  generator(0, std::as_writable_bytes(std::span(bits)));
  return bits;
}

TEST(GeneratedArraysTest, FloatsOf16Bits) {
  using testing::ElementsAre;
  EXPECT_THAT(BitsOf(IotaGenerator(ElementType::kFloat16), 4), ElementsAre(0, 0x3c00, 0x4000, 0x4200));
  EXPECT_THAT(BitsOf(IotaGenerator(ElementType::kBfloat16), 4), ElementsAre(0, 0x3f80, 0x4000, 0x4040));
  // 0xe2 and 0xe22 >> 1 of the first output for the seed 0, as parts of 2^8 and 2^11.
  EXPECT_EQ(BitsOf(RandomGenerator(ElementType::kBfloat16, 0), 1)[0], 0x3f62);
  EXPECT_EQ(BitsOf(RandomGenerator(ElementType::kFloat16, 0), 1)[0], 0x3b11);
}

TEST(GeneratedArraysTest, ARandomBoolIsTheHighestBit) {
  std::vector<std::byte> values(100);
  RandomGenerator(ElementType::kBool, 3)(0, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], std::byte(SplitMix64(3, i) >> 63)) << i;
}

TEST(GeneratedArraysTest, IotaEndsWhereTheTypeSkipsANumber) {
  EXPECT_EQ(MaxIota(ElementType::kBool), 2u);
  EXPECT_EQ(MaxIota(ElementType::kInt8), 128u);
  EXPECT_EQ(MaxIota(ElementType::kUint8), 256u);
  EXPECT_EQ(MaxIota(ElementType::kInt64), std::uint64_t{1} << 63);
  EXPECT_EQ(MaxIota(ElementType::kUint64), std::uint64_t{1} << 63);
  EXPECT_EQ(MaxIota(ElementType::kBfloat16), 257u);
  EXPECT_EQ(MaxIota(ElementType::kFloat16), 2049u);
  EXPECT_EQ(MaxIota(ElementType::kFloat32), (1u << 24) + 1);
  EXPECT_EQ(MaxIota(ElementType::kFloat64), (std::uint64_t{1} << 53) + 1);
}

TEST(MatrixShapeTest, LastTwoDimensionsWhereMatricesAreAskedFor) {
  const MatrixShape two_by_three = {2, 3};
  EXPECT_EQ(*MatrixShapeOf({7, 2, 3}, std::nullopt, false), std::nullopt);
  EXPECT_EQ(*MatrixShapeOf({7, 2, 3}, std::nullopt, true), two_by_three);
  EXPECT_EQ(*MatrixShapeOf({7, 2, 3}, two_by_three, false), two_by_three);
  EXPECT_EQ(*MatrixShapeOf({2, 3}, std::nullopt, true), two_by_three);
  EXPECT_EQ(*MatrixShapeOf({42}, two_by_three, true), two_by_three);
  EXPECT_FALSE(MatrixShapeOf({7, 3, 2}, two_by_three, false).ok());
  const MatrixShape row = {1, 3};
  EXPECT_EQ(*MatrixShapeOf({7, 1, 3}, row, true), row);
  EXPECT_EQ(*MatrixShapeOf({7, 3}, row, true), row);
  EXPECT_EQ(*MatrixShapeOf({7, 2, 3}, row, false), row);
  EXPECT_FALSE(MatrixShapeOf({7, 2}, row, true).ok());
  EXPECT_FALSE(MatrixShapeOf({3, 1}, row, true).ok());
  EXPECT_FALSE(MatrixShapeOf({42}, std::nullopt, true).ok());
  EXPECT_FALSE(MatrixShapeOf({7, 0, 3}, std::nullopt, true).ok());
}

}  // namespace
}  // namespace warpfold::cli
