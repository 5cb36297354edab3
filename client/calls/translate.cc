// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/translate.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"

namespace warpfold {
namespace {

constexpr absl::string_view kEnumPrefix = "OPERATOR_";
constexpr absl::string_view kAlgorithmPrefix = "ALGORITHM_";

// "bit_and" of "OPERATOR_BIT_AND".
std::string ShortName(absl::string_view enum_name, absl::string_view prefix) {
  enum_name.remove_prefix(std::min(enum_name.size(), prefix.size()));
  return absl::AsciiStrToLower(enum_name);
}

std::vector<std::string> TypeNames(const google::protobuf::RepeatedField<int>& types) {
  std::vector<std::string> names;
  for (const int type : types) {
    if (type < 1 || type > kElementTypeCount) continue;
    names.emplace_back(ElementTypeName(static_cast<ElementType>(type)));
  }
  return names;
}

template <typename Entries>
std::vector<Scalar> ScalarsOf(const Entries& entries) {
  return std::vector<Scalar>(entries.begin(), entries.end());
}

absl::StatusOr<Value> MatrixFromProto(const v1::MatrixValue& matrix) {
  std::vector<Scalar> entries = ScalarsOf(matrix.int64_entries());
  if (entries.empty()) entries = ScalarsOf(matrix.uint64_entries());
  if (entries.empty()) entries = ScalarsOf(matrix.double_entries());
  if (entries.empty()) entries = ScalarsOf(matrix.bool_entries());
  if (entries.empty() || entries.size() != std::uint64_t{matrix.rows()} * matrix.columns()) {
    return absl::InternalError("the server answered a matrix of the wrong size");
  }
  return Matrix{{matrix.rows(), matrix.columns()}, std::move(entries)};
}

// Result: v1::OperatorResult or v1::Field. Nothing if it holds no scalar.
template <typename Result>
std::optional<Scalar> ScalarFromProto(const Result& result) {
  switch (result.value_case()) {
    case Result::kInt64Value:
      return Scalar(result.int64_value());
    case Result::kUint64Value:
      return Scalar(result.uint64_value());
    case Result::kDoubleValue:
      return Scalar(result.double_value());
    case Result::kBoolValue:
      return Scalar(result.bool_value());
    default:
      return std::nullopt;
  }
}

absl::StatusOr<Value> FieldsFromProto(const v1::FieldsValue& value) {
  Fields fields;
  for (const v1::Field& field : value.fields()) {
    const std::optional<Scalar> scalar = ScalarFromProto(field);
    if (!scalar.has_value()) return absl::InternalError("the server answered a field without a value");
    fields.emplace_back(field.name(), *scalar);
  }
  return fields;
}

// Never OK, whatever the server wrote.
absl::Status ErrorFromProto(absl::string_view operator_name, const v1::ResultError& error) {
  const auto code = error.code() > 0 && error.code() <= 16 ? static_cast<absl::StatusCode>(error.code())
                                                           : absl::StatusCode::kUnknown;
  return MakeOperatorError(code, error.reason(), operator_name, error.message());
}

absl::StatusOr<Value> ValueFromProto(const v1::OperatorResult& result) {
  if (result.has_matrix_value()) return MatrixFromProto(result.matrix_value());
  if (result.has_fields_value()) return FieldsFromProto(result.fields_value());
  if (const std::optional<Scalar> scalar = ScalarFromProto(result)) return *scalar;
  return absl::InternalError(
      absl::StrCat("the server answered no value for ", OperatorName(result.operator_())));
}

}  // namespace

std::string OperatorName(v1::Operator op) { return ShortName(v1::Operator_Name(op), kEnumPrefix); }

std::vector<std::string> OperatorNames() {
  std::vector<std::string> names;
  const google::protobuf::EnumDescriptor& descriptor = *v1::Operator_descriptor();
  for (int i = 0; i < descriptor.value_count(); ++i) {
    const auto op = static_cast<v1::Operator>(descriptor.value(i)->number());
    if (op != v1::OPERATOR_UNSPECIFIED) names.push_back(OperatorName(op));
  }
  return names;
}

std::string AlgorithmName(v1::Algorithm algorithm) {
  return ShortName(v1::Algorithm_Name(algorithm), kAlgorithmPrefix);
}

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names;
  const google::protobuf::EnumDescriptor& descriptor = *v1::Algorithm_descriptor();
  for (int i = 0; i < descriptor.value_count(); ++i) {
    const auto algorithm = static_cast<v1::Algorithm>(descriptor.value(i)->number());
    if (algorithm != v1::ALGORITHM_UNSPECIFIED) names.push_back(AlgorithmName(algorithm));
  }
  return names;
}

std::vector<ServedOperator> ServedOperators(const v1::GetServerInfoResponse& info) {
  std::vector<ServedOperator> served;
  for (const v1::OperatorInfo& op : info.operators()) {
    if (!v1::Operator_IsValid(op.operator_())) continue;
    served.push_back(
        {OperatorName(op.operator_()), TypeNames(op.scalar_types()), TypeNames(op.matrix_types())});
  }
  return served;
}

std::vector<std::string> ServedAlgorithms(const v1::GetServerInfoResponse& info) {
  std::vector<std::string> names;
  for (const int algorithm : info.algorithms()) {
    if (!v1::Algorithm_IsValid(algorithm)) continue;
    names.push_back(AlgorithmName(static_cast<v1::Algorithm>(algorithm)));
  }
  return names;
}

absl::StatusOr<v1::ReductionSpec> ToProto(const Spec& spec, ElementType type) {
  v1::ReductionSpec proto;
  // A number that the caller has cast: tables of types have no place for it.
  if (IndexOf(type) < 0 || IndexOf(type) >= kElementTypeCount) {
    return RefuseCall(absl::StatusCode::kInvalidArgument, reason::kUnsupportedType,
                      absl::StrCat("there is no element type ", static_cast<int>(type)));
  }
  for (const std::string& name : spec.operators) {
    v1::Operator op = v1::OPERATOR_UNSPECIFIED;
    const std::string enum_name = absl::StrCat(kEnumPrefix, absl::AsciiStrToUpper(name));
    if (!v1::Operator_Parse(enum_name, &op) || op == v1::OPERATOR_UNSPECIFIED) {
      return RefuseCall(
          absl::StatusCode::kUnimplemented, reason::kUnknownOperator,
          absl::StrCat("unknown operator '", name, "'; there are ", absl::StrJoin(OperatorNames(), ", ")));
    }
    proto.add_operators(op);
  }
  proto.set_element_type(static_cast<v1::ElementType>(type));
  if (spec.matrix_shape.has_value()) {
    if (ElementBytes(spec, type) == 0) {
      return BadHeader("matrix_shape must have rows and columns, of which a server takes 32 at most",
                       "matrix_shape");
    }
    proto.mutable_matrix_shape()->set_rows(spec.matrix_shape->rows);
    proto.mutable_matrix_shape()->set_columns(spec.matrix_shape->columns);
  }
  if (spec.wrap_overflow.has_value())
    proto.set_overflow_policy(*spec.wrap_overflow ? v1::OVERFLOW_POLICY_WRAP : v1::OVERFLOW_POLICY_ERROR);
  if (spec.ignore_nan) proto.set_nan_policy(v1::NAN_POLICY_IGNORE);
  if (spec.modulus.has_value()) proto.set_modulus(*spec.modulus);
  proto.set_ddof(spec.ddof);
  if (!spec.algorithm.empty()) {
    v1::Algorithm algorithm = v1::ALGORITHM_UNSPECIFIED;
    const std::string enum_name = absl::StrCat(kAlgorithmPrefix, absl::AsciiStrToUpper(spec.algorithm));
    if (!v1::Algorithm_Parse(enum_name, &algorithm) || algorithm == v1::ALGORITHM_UNSPECIFIED) {
      return RefuseCall(absl::StatusCode::kUnimplemented, reason::kUnsupportedAlgorithm,
                        absl::StrCat("unknown algorithm '", spec.algorithm, "'"));
    }
    proto.set_algorithm(algorithm);
  }
  return proto;
}

absl::StatusOr<Reduction> FromProto(const v1::Reduction& reduction) {
  Reduction result;
  for (const v1::OperatorResult& proto : reduction.results()) {
    OperatorResult& entry = result.results.emplace_back();
    entry.name = OperatorName(proto.operator_());
    if (proto.has_error()) {
      entry.status = ErrorFromProto(entry.name, proto.error());
    } else {
      absl::StatusOr<Value> value = ValueFromProto(proto);
      if (!value.ok()) return value.status();
      entry.value = *std::move(value);
    }
    if (proto.has_index()) entry.index = proto.index();
    if (proto.has_end_index()) entry.end_index = proto.end_index();
  }
  result.element_count = reduction.element_count();
  result.device = reduction.device();
  result.timings = TimingsFromProto(reduction.timings());
  return result;
}

Timings TimingsFromProto(const v1::ServerTimings& timings) {
  return {.total = {},
          .queue = absl::Nanoseconds(timings.queue_ns()),
          .receive = absl::Nanoseconds(timings.receive_ns()),
          .copy = absl::Nanoseconds(timings.copy_ns()),
          .kernel = absl::Nanoseconds(timings.kernel_ns())};
}

std::uint64_t ElementBytes(const Spec& spec, ElementType type) {
  const std::uint64_t entry_bytes = ElementTypeBytes(type);
  if (!spec.matrix_shape.has_value()) return entry_bytes;
  const auto [rows, columns] = *spec.matrix_shape;
  if (rows > kMaxMatrixSide || columns > kMaxMatrixSide) return 0;
  return entry_bytes * rows * columns;
}

}  // namespace warpfold
