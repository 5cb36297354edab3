// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/validators.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/calls/translate.h"
#include "proto/shared/command_line.h"

namespace warpfold::cli {
namespace {

std::string CheckType(std::string& text) {
  if (ElementTypeByName(text).has_value()) return "";
  std::vector<absl::string_view> names;
  for (int i = 0; i < kElementTypeCount; ++i) names.push_back(ElementTypeName(ElementTypeAt(i)));
  return absl::StrCat("unknown type '", text, "'; there are ", absl::StrJoin(names, ", "));
}

std::string CheckOperators(std::string& text) {
  const std::vector<std::string> names = OperatorNames();
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return absl::StrCat("unknown operator '", name, "'; there are ", absl::StrJoin(names, ", "));
  }
  return "";
}

std::string CheckUnsigned(std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) return "'" + text + "' is not a whole number of 0 or more";
  std::uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return "'" + text + "' is not less than 2^64";
  text = WithoutLeadingZeros(text);
  return "";
}

std::string CheckInteger(std::string& text) {
  std::int64_t number = 0;
  if (!IsDecimal(text) || !absl::SimpleAtoi(text, &number))
    return "'" + text + "' is not a whole number of 64 bits";
  text = WithoutLeadingZeros(text);
  return "";
}

// abseil would also accept blanks around it and hexadecimal digits.
bool ReadNumber(const std::string& text, double* number) {
  return text.find_first_of(" \t\n\v\f\rxX") == std::string::npos && absl::SimpleAtod(text, number);
}

std::string CheckSeconds(std::string& text) {
  double seconds = 0;
  const bool is_time = ReadNumber(text, &seconds) && seconds > 0 && std::isfinite(seconds);
  return is_time ? "" : "'" + text + "' is not a number of seconds above 0";
}

std::string CheckNumber(std::string& text) {
  double number = 0;
  return ReadNumber(text, &number) && !std::isnan(number) ? "" : "'" + text + "' is not a number";
}

std::string CheckPositive(std::string& text) {
  const bool is_zero = text.find_first_not_of('0') == std::string::npos;
  return is_zero ? "'" + text + "' is not a whole number of 1 or more" : CheckUnsigned(text);
}

std::string CheckMatrixShape(std::string& text) {
  return ParseMatrixShape(text).has_value() ? "" : "'" + text + "' is not ROWSxCOLUMNS, as 4x4";
}

std::string CheckToken(std::string& text) {
  constexpr std::size_t kDigits = 32;
  const bool digits = text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  return digits && text.size() == kDigits
             ? ""
             : absl::StrCat("is not a token of ", kDigits, " hexadecimal digits, as `warpfold put` prints");
}

}  // namespace

CLI::Validator TypeValidator() { return CLI::Validator(CheckType, "TYPE"); }

CLI::Validator OperatorsValidator() { return CLI::Validator(CheckOperators, "NAME,..."); }

CLI::Validator UnsignedValidator(const std::string& name) { return CLI::Validator(CheckUnsigned, name); }

CLI::Validator IntegerValidator() { return CLI::Validator(CheckInteger, ""); }

CLI::Validator PositiveValidator(const std::string& name) { return CLI::Validator(CheckPositive, name); }

CLI::Validator SecondsValidator() { return CLI::Validator(CheckSeconds, "SECONDS"); }

CLI::Validator NumberValidator() { return CLI::Validator(CheckNumber, ""); }

CLI::Validator TokenValidator() { return CLI::Validator(CheckToken, "TOKEN"); }

CLI::Validator MatrixShapeValidator() { return CLI::Validator(CheckMatrixShape, "RxC"); }

std::optional<MatrixShape> ParseMatrixShape(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  MatrixShape shape;
  const bool is_plain = text.find_first_not_of("0123456789x") == std::string::npos;
  if (!is_plain || parts.size() != 2 || !absl::SimpleAtoi(parts[0], &shape.rows) ||
      !absl::SimpleAtoi(parts[1], &shape.columns) || shape.rows == 0 || shape.columns == 0 ||
      std::max(shape.rows, shape.columns) > kMaxMatrixSide) {
    return std::nullopt;
  }
  return shape;
}

CLI::Option* AddDtype(CLI::App& app, std::optional<ElementType>* type, const std::string& help) {
  return app
      .add_option_function<std::string>(
          "--dtype", [type](const std::string& name) { *type = ElementTypeByName(name); }, help)
      ->transform(TypeValidator());
}

}  // namespace warpfold::cli
