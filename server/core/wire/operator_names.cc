// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/operator_names.h"

#include <array>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/reduction.h"

namespace warpfold::server {
namespace {

constexpr absl::string_view kOperatorPrefix = "OPERATOR_";
constexpr absl::string_view kAlgorithmPrefix = "ALGORITHM_";

// "bit_and" of "OPERATOR_BIT_AND".
std::string ShortName(absl::string_view enum_name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(enum_name, prefix));
}

std::string EnumName(absl::string_view short_name, absl::string_view prefix) {
  return absl::StrCat(prefix, absl::AsciiStrToUpper(short_name));
}

// Both directions, built once: reducing a small array takes less time than using descriptors.
struct OperatorNames {
  std::array<std::string, v1::Operator_ARRAYSIZE> of_number;
  absl::flat_hash_map<std::string, v1::Operator> by_name;

  static const OperatorNames& Get() {
    static const auto* const names = new OperatorNames;
    return *names;
  }

 private:
  OperatorNames() {
    for (int number = 1; number < v1::Operator_ARRAYSIZE; ++number) {
      if (!v1::Operator_IsValid(number)) continue;
      const auto op = static_cast<v1::Operator>(number);
      of_number[number] = ShortName(v1::Operator_Name(op), kOperatorPrefix);
      by_name[of_number[number]] = op;
    }
  }
};

// The type has the same number as in the protocol.
constexpr bool HasNumberOf(ElementType type, v1::ElementType proto) {
  return static_cast<int>(type) == static_cast<int>(proto);
}
static_assert(HasNumberOf(ElementType::kInt32, v1::ELEMENT_TYPE_INT32) &&
              HasNumberOf(ElementType::kInt64, v1::ELEMENT_TYPE_INT64) &&
              HasNumberOf(ElementType::kUint32, v1::ELEMENT_TYPE_UINT32) &&
              HasNumberOf(ElementType::kUint64, v1::ELEMENT_TYPE_UINT64) &&
              HasNumberOf(ElementType::kFloat32, v1::ELEMENT_TYPE_FLOAT32) &&
              HasNumberOf(ElementType::kFloat64, v1::ELEMENT_TYPE_FLOAT64) &&
              HasNumberOf(ElementType::kInt8, v1::ELEMENT_TYPE_INT8) &&
              HasNumberOf(ElementType::kUint8, v1::ELEMENT_TYPE_UINT8) &&
              HasNumberOf(ElementType::kInt16, v1::ELEMENT_TYPE_INT16) &&
              HasNumberOf(ElementType::kUint16, v1::ELEMENT_TYPE_UINT16) &&
              HasNumberOf(ElementType::kFloat16, v1::ELEMENT_TYPE_FLOAT16) &&
              HasNumberOf(ElementType::kBfloat16, v1::ELEMENT_TYPE_BFLOAT16) &&
              HasNumberOf(ElementType::kBool, v1::ELEMENT_TYPE_BOOL) &&
              kElementTypeCount + 1 == v1::ElementType_ARRAYSIZE);

}  // namespace

std::string OperatorName(v1::Operator op) {
  return op > 0 && op < v1::Operator_ARRAYSIZE ? OperatorNames::Get().of_number[op] : "";
}

v1::Operator OperatorByName(absl::string_view name) {
  const auto& by_name = OperatorNames::Get().by_name;
  const auto found = by_name.find(name);
  return found == by_name.end() ? v1::OPERATOR_UNSPECIFIED : found->second;
}

std::optional<ElementType> ElementTypeFromProto(v1::ElementType type) {
  if (type == v1::ELEMENT_TYPE_UNSPECIFIED || !v1::ElementType_IsValid(type)) return std::nullopt;
  return static_cast<ElementType>(type);
}

v1::ElementType ElementTypeToProto(ElementType type) { return static_cast<v1::ElementType>(type); }

std::optional<kernels::Algorithm> AlgorithmFromProto(v1::Algorithm algorithm) {
  if (algorithm == v1::ALGORITHM_UNSPECIFIED) return kernels::Algorithm::kAuto;
  if (!v1::Algorithm_IsValid(algorithm)) return std::nullopt;
  return kernels::AlgorithmByName(ShortName(v1::Algorithm_Name(algorithm), kAlgorithmPrefix));
}

v1::Algorithm AlgorithmToProto(kernels::Algorithm algorithm) {
  v1::Algorithm result = v1::ALGORITHM_UNSPECIFIED;
  static_cast<void>(
      v1::Algorithm_Parse(EnumName(kernels::AlgorithmName(algorithm), kAlgorithmPrefix), &result));
  return result;
}

}  // namespace warpfold::server
