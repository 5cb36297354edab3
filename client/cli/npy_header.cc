// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/npy_header.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace warpfold::cli {
namespace {

// Takes tokens from the front of a text. Each method returns nothing, or false, and consumes nothing but
// white space, if the token is not there.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : rest_(text) {}

  bool Take(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  // A string in single or double quotes, without escapes.
  std::optional<std::string> TakeString() {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string value(rest_.substr(1, end - 1));
    if (absl::StrContains(value, "\\")) return std::nullopt;
    rest_.remove_prefix(end + 1);
    return value;
  }

  std::optional<bool> TakeBool() {
    if (Take("True")) return true;
    if (Take("False")) return false;
    return std::nullopt;
  }

  std::optional<std::uint64_t> TakeInteger() {
    SkipSpace();
    std::size_t digits = 0;
    while (digits < rest_.size() && absl::ascii_isdigit(static_cast<unsigned char>(rest_[digits]))) ++digits;
    std::uint64_t value = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, digits), &value)) return std::nullopt;
    // Python has no number 012, which was octal in earlier versions.
    if (rest_[0] == '0' && value != 0) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }

  // Such as "()", "(3,)" or "(3, 4)".
  std::optional<std::vector<std::uint64_t>> TakeShape() {
    if (!Take("(")) return std::nullopt;
    std::vector<std::uint64_t> shape;
    bool comma = true;
    while (!Take(")")) {
      const std::optional<std::uint64_t> length = TakeInteger();
      if (!comma || !length.has_value()) return std::nullopt;
      shape.push_back(*length);
      comma = Take(",");
    }
    // "(3)" is a number in parentheses, not a tuple.
    if (shape.size() == 1 && !comma) return std::nullopt;
    return shape;
  }

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }

 private:
  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  absl::string_view rest_;
};

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed .npy header: ", what));
}

// The parts of the header that were found so far.
struct Parts {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

absl::Status TakeEntry(Scanner& scanner, Parts& parts) {
  const std::optional<std::string> key = scanner.TakeString();
  if (!key.has_value() || !scanner.Take(":")) return Malformed("expected a key");
  if (key == "descr" && !parts.descr.has_value()) {
    if (scanner.Take("[")) {
      return absl::InvalidArgumentError("unsupported dtype: a structure; arrays of numbers only");
    }
    parts.descr = scanner.TakeString();
    return parts.descr.has_value() ? absl::OkStatus() : Malformed("descr is not a string");
  }
  if (key == "fortran_order" && !parts.fortran_order.has_value()) {
    parts.fortran_order = scanner.TakeBool();
    return parts.fortran_order.has_value() ? absl::OkStatus()
                                           : Malformed("fortran_order is not a truth value");
  }
  if (key == "shape" && !parts.shape.has_value()) {
    parts.shape = scanner.TakeShape();
    return parts.shape.has_value() ? absl::OkStatus() : Malformed("shape is not a tuple of lengths");
  }
  return Malformed(absl::StrCat("unexpected key '", *key, "'"));
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  Scanner scanner(text);
  Parts parts;
  if (!scanner.Take("{")) return Malformed("not a dictionary");
  bool comma = true;
  while (!scanner.Take("}")) {
    if (!comma) return Malformed("expected a comma");
    if (absl::Status status = TakeEntry(scanner, parts); !status.ok()) return status;
    comma = scanner.Take(",");
  }
  if (!scanner.AtEnd()) return Malformed("text after the dictionary");
  if (!parts.descr || !parts.fortran_order || !parts.shape) return Malformed("a key is missing");
  return NpyHeader{*std::move(parts.descr), *parts.fortran_order, *std::move(parts.shape)};
}

}  // namespace warpfold::cli
