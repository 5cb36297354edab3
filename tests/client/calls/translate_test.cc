// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "client/error.h"

namespace warpfold {
namespace {

using testing::Contains;
using testing::ElementsAre;

TEST(TranslateTest, OperatorNamesAreThoseOfTheProtocol) {
  EXPECT_THAT(OperatorNames(), Contains("sum"));
  EXPECT_THAT(OperatorNames(), Contains("matrix_product"));
  EXPECT_THAT(OperatorNames(), testing::Not(Contains("unspecified")));
  for (const std::string& name : OperatorNames()) {
    const absl::StatusOr<v1::ReductionSpec> spec = ToProto({.operators = {name}}, ElementType::kInt32);
    ASSERT_TRUE(spec.ok()) << name;
    EXPECT_EQ(OperatorName(spec->operators(0)), name);
  }
}

TEST(TranslateTest, ElementTypesAreThoseOfTheProtocol) {
  for (const char* name : {"int32", "int64", "uint32", "uint64", "float32", "float64"}) {
    const std::optional<ElementType> type = ElementTypeByName(name);
    ASSERT_TRUE(type.has_value());
    EXPECT_STREQ(ElementTypeName(*type), name);
    EXPECT_EQ("ELEMENT_TYPE_" + absl::AsciiStrToUpper(name),
              v1::ElementType_Name(static_cast<v1::ElementType>(*type)));
  }
  EXPECT_FALSE(ElementTypeByName("complex64").has_value());
  static_assert(ElementTypeOf<float>() == ElementType::kFloat32);
  static_assert(ElementTypeOf<std::uint64_t>() == ElementType::kUint64);
  static_assert(ElementTypeOf<std::int32_t>() == ElementType::kInt32);
  static_assert(ElementTypeOf<long long>() == ElementType::kInt64);
  static_assert(ElementTypeOf<unsigned long long>() == ElementType::kUint64);
}

TEST(TranslateTest, SpecIsSentWhole) {
  const Spec spec = {.operators = {"max", "matrix_product"},
                     .matrix_shape = MatrixShape{3, 4},
                     .wrap_overflow = true,
                     .ignore_nan = true,
                     .modulus = 97,
                     .algorithm = "warp_shuffle"};
  const absl::StatusOr<v1::ReductionSpec> proto = ToProto(spec, ElementType::kUint64);
  ASSERT_TRUE(proto.ok());
  EXPECT_EQ(proto->algorithm(), v1::ALGORITHM_WARP_SHUFFLE);
  EXPECT_THAT(proto->operators(), ElementsAre(v1::OPERATOR_MAX, v1::OPERATOR_MATRIX_PRODUCT));
  EXPECT_EQ(proto->element_type(), v1::ELEMENT_TYPE_UINT64);
  EXPECT_EQ(proto->matrix_shape().rows(), 3u);
  EXPECT_EQ(proto->matrix_shape().columns(), 4u);
  EXPECT_EQ(proto->overflow_policy(), v1::OVERFLOW_POLICY_WRAP);
  EXPECT_EQ(proto->nan_policy(), v1::NAN_POLICY_IGNORE);
  EXPECT_EQ(proto->modulus(), 97u);
  EXPECT_EQ(ElementBytes(spec, ElementType::kUint64), 96u);
}

TEST(TranslateTest, AnOverflowPolicyIsSentWhereItIsNamed) {
  const auto policy = [](std::optional<bool> wrap) {
    return ToProto({.operators = {"sum"}, .wrap_overflow = wrap}, ElementType::kInt32)->overflow_policy();
  };
  EXPECT_EQ(policy(std::nullopt), v1::OVERFLOW_POLICY_UNSPECIFIED);
  EXPECT_EQ(policy(false), v1::OVERFLOW_POLICY_ERROR);
  EXPECT_EQ(policy(true), v1::OVERFLOW_POLICY_WRAP);
}

TEST(TranslateTest, SidesOfMatricesHaveALimit) {
  const auto bytes = [](std::uint32_t rows, std::uint32_t columns) {
    return ElementBytes({.matrix_shape = MatrixShape{rows, columns}}, ElementType::kInt32);
  };
  EXPECT_EQ(bytes(kMaxMatrixSide, 2), 4u * kMaxMatrixSide * 2);
  EXPECT_EQ(bytes(2, kMaxMatrixSide), 4u * kMaxMatrixSide * 2);
  EXPECT_EQ(bytes(kMaxMatrixSide + 1, 1), 0u);
  EXPECT_EQ(bytes(1, kMaxMatrixSide + 1), 0u);
  EXPECT_EQ(bytes(~0u, ~0u), 0u);
}

TEST(TranslateTest, ATypeThatIsNoneIsRefused) {
  for (const int number : {0, kElementTypeCount + 1, 100, 255}) {
    for (const Spec& spec : {Spec{.operators = {"sum"}}, Spec{.matrix_shape = MatrixShape{2, 2}}}) {
      const absl::Status status = ToProto(spec, static_cast<ElementType>(number)).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << number << ": " << status;
      EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "UNSUPPORTED_TYPE");
    }
  }
}

TEST(TranslateTest, AnErrorsTextHasItsReason) {
  EXPECT_EQ(ErrorText(absl::OkStatus()), "OK");
  EXPECT_EQ(ErrorText(absl::UnavailableError("nobody listens")), "UNAVAILABLE: nobody listens");
  EXPECT_THAT(
      ErrorText(ToProto({.operators = {"sun"}}, ElementType::kInt32).status()),
      testing::StartsWith("UNIMPLEMENTED (UNKNOWN_OPERATOR): unknown operator 'sun'; there are sum, "));
}

TEST(TranslateTest, AlgorithmsHaveTheNamesOfTheProtocol) {
  const std::vector<std::string> names = AlgorithmNames();
  EXPECT_EQ(names.size(), 20u);
  EXPECT_EQ(names.front(), "auto");
  for (const std::string& name : names) {
    const absl::StatusOr<v1::ReductionSpec> proto =
        ToProto({.operators = {"sum"}, .algorithm = name}, ElementType::kInt32);
    ASSERT_TRUE(proto.ok()) << proto.status();
    EXPECT_EQ(AlgorithmName(proto->algorithm()), name);
  }
  EXPECT_EQ(ToProto({.operators = {"sum"}}, ElementType::kInt32)->algorithm(), v1::ALGORITHM_UNSPECIFIED);
  for (const std::string name : {"unspecified", "quantum"}) {
    const absl::Status status =
        ToProto({.operators = {"sum"}, .algorithm = name}, ElementType::kInt32).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "UNSUPPORTED_ALGORITHM");
  }
}

TEST(TranslateTest, EveryKindOfValueComesBack) {
  v1::Reduction proto;
  proto.add_results()->set_int64_value(std::numeric_limits<std::int64_t>::min());
  proto.add_results()->set_uint64_value(std::numeric_limits<std::uint64_t>::max());
  proto.add_results()->set_double_value(-0.0);
  proto.add_results()->set_bool_value(true);
  v1::OperatorResult& located = *proto.add_results();
  located.set_operator_(v1::OPERATOR_ARGMIN);
  located.set_int64_value(-5);
  located.set_index(std::uint64_t{1} << 40);
  v1::MatrixValue& matrix = *proto.add_results()->mutable_matrix_value();
  matrix.set_rows(1);
  matrix.set_columns(2);
  matrix.add_double_entries(0.5);
  matrix.add_double_entries(1.5);

  const absl::StatusOr<Reduction> reduction = FromProto(proto);
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  const std::vector<OperatorResult>& results = reduction->results;
  EXPECT_EQ(*results[0].As<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*results[1].As<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(std::signbit(*results[2].As<double>()));
  EXPECT_EQ(*results[3].As<bool>(), true);
  EXPECT_EQ(results[4].name, "argmin");
  EXPECT_EQ(results[4].index, std::uint64_t{1} << 40);
  EXPECT_EQ(std::get<Matrix>(results[5].value), (Matrix{{1, 2}, {Scalar(0.5), Scalar(1.5)}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(results[0].As<double>().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(results[5].As<double>().status()));
}

TEST(TranslateTest, AnOperatorWithoutAValueHasAnErrorWhateverItsCode) {
  v1::Reduction proto;
  for (const int code : {11, 0, 17, -1}) {
    v1::OperatorResult& result = *proto.add_results();
    result.set_operator_(v1::OPERATOR_SUM);
    result.mutable_error()->set_code(code);
    result.mutable_error()->set_reason("OVERFLOW");
    result.mutable_error()->set_message("too large");
  }
  proto.add_results()->set_int64_value(1);
  const absl::StatusOr<Reduction> reduction = FromProto(proto);
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  ASSERT_EQ(reduction->results.size(), 5u);
  EXPECT_EQ(reduction->results[0].status.code(), absl::StatusCode::kOutOfRange);
  const ErrorInfo info = GetErrorInfo(reduction->results[0].status).value_or(ErrorInfo{});
  EXPECT_EQ(info.reason, "OVERFLOW");
  EXPECT_EQ(info.metadata, (std::map<std::string, std::string>{{"operator", "sum"}}));
  for (int i = 1; i < 4; ++i) EXPECT_EQ(reduction->results[i].status.code(), absl::StatusCode::kUnknown) << i;
  EXPECT_TRUE(reduction->results[4].status.ok());
}

TEST(TranslateTest, WhatANewerServerHasIsLeftOut) {
  v1::GetServerInfoResponse info;
  v1::OperatorInfo& sum = *info.add_operators();
  sum.set_operator_(v1::OPERATOR_SUM);
  sum.add_scalar_types(v1::ELEMENT_TYPE_INT32);
  sum.add_scalar_types(static_cast<v1::ElementType>(99));
  sum.add_matrix_types(v1::ELEMENT_TYPE_UNSPECIFIED);
  info.add_operators()->set_operator_(static_cast<v1::Operator>(999));
  info.add_algorithms(static_cast<v1::Algorithm>(99));
  info.add_algorithms(v1::ALGORITHM_LAST_BLOCK);
  const std::vector<ServedOperator> operators = ServedOperators(info);
  ASSERT_EQ(operators.size(), 1u);
  EXPECT_EQ(operators[0].name, "sum");
  EXPECT_EQ(operators[0].scalar_types, std::vector<std::string>{"int32"});
  EXPECT_TRUE(operators[0].matrix_types.empty());
  EXPECT_EQ(ServedAlgorithms(info), std::vector<std::string>{"last_block"});
}

TEST(TranslateTest, NonsenseFromTheServerIsAnError) {
  v1::Reduction no_value;
  no_value.add_results()->set_operator_(v1::OPERATOR_SUM);
  EXPECT_TRUE(absl::IsInternal(FromProto(no_value).status()));

  v1::Reduction short_matrix;
  v1::MatrixValue& matrix = *short_matrix.add_results()->mutable_matrix_value();
  matrix.set_rows(2);
  matrix.set_columns(2);
  matrix.add_int64_entries(1);
  EXPECT_TRUE(absl::IsInternal(FromProto(short_matrix).status()));
}

}  // namespace
}  // namespace warpfold
