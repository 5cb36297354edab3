// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/core/operator_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/reduction.h"

namespace warpfold::server {
namespace {

constexpr absl::string_view kOperatorPrefix = "OPERATOR_";
constexpr absl::string_view kElementTypePrefix = "ELEMENT_TYPE_";
constexpr absl::string_view kAlgorithmPrefix = "ALGORITHM_";

// "bit_and" of "OPERATOR_BIT_AND".
std::string ShortName(absl::string_view enum_name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(enum_name, prefix));
}

std::string EnumName(absl::string_view short_name, absl::string_view prefix) {
  return absl::StrCat(prefix, absl::AsciiStrToUpper(short_name));
}

}  // namespace

std::string OperatorName(v1::Operator op) {
  if (op == v1::OPERATOR_UNSPECIFIED || !v1::Operator_IsValid(op)) return "";
  return ShortName(v1::Operator_Name(op), kOperatorPrefix);
}

v1::Operator OperatorByName(absl::string_view name) {
  v1::Operator op = v1::OPERATOR_UNSPECIFIED;
  v1::Operator_Parse(EnumName(name, kOperatorPrefix), &op);
  return op;
}

std::optional<kernels::ElementType> ElementTypeFromProto(v1::ElementType type) {
  if (!v1::ElementType_IsValid(type)) return std::nullopt;
  return kernels::ElementTypeByName(ShortName(v1::ElementType_Name(type), kElementTypePrefix));
}

v1::ElementType ElementTypeToProto(kernels::ElementType type) {
  v1::ElementType result = v1::ELEMENT_TYPE_UNSPECIFIED;
  v1::ElementType_Parse(EnumName(kernels::ElementTypeName(type), kElementTypePrefix), &result);
  return result;
}

std::optional<kernels::Algorithm> AlgorithmFromProto(v1::Algorithm algorithm) {
  if (algorithm == v1::ALGORITHM_UNSPECIFIED) return kernels::Algorithm::kAuto;
  if (!v1::Algorithm_IsValid(algorithm)) return std::nullopt;
  return kernels::AlgorithmByName(ShortName(v1::Algorithm_Name(algorithm), kAlgorithmPrefix));
}

v1::Algorithm AlgorithmToProto(kernels::Algorithm algorithm) {
  v1::Algorithm result = v1::ALGORITHM_UNSPECIFIED;
  v1::Algorithm_Parse(EnumName(kernels::AlgorithmName(algorithm), kAlgorithmPrefix), &result);
  return result;
}

}  // namespace warpfold::server
