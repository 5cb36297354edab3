// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/input.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/generated_arrays.h"
#include "client/cli/npy.h"
#include "client/translate.h"

namespace warpfold::cli {
namespace {

absl::Status Refuse(absl::string_view why) { return absl::InvalidArgumentError(why); }

absl::Status CheckWholeElements(std::uint64_t byte_count, const Spec& spec, ElementType type) {
  const std::uint64_t element_bytes = ElementBytes(spec, type);
  if (byte_count % element_bytes == 0) return absl::OkStatus();
  return Refuse(
      absl::StrCat(byte_count, " bytes are not a whole number of elements of ", element_bytes, " bytes"));
}

absl::StatusOr<Input> OpenNpy(const ReduceFlags& flags, MappedFile file) {
  absl::StatusOr<NpyArray> array = ParseNpy(file.bytes());
  if (!array.ok()) return array.status();
  if (flags.type.has_value() && *flags.type != array->type) {
    return Refuse(absl::StrCat("the file holds ", ElementTypeName(array->type), ", --dtype says ",
                               ElementTypeName(*flags.type)));
  }
  const std::vector<std::string>& operators = flags.spec.operators;
  const bool needs_matrices =
      std::find(operators.begin(), operators.end(), "matrix_product") != operators.end();
  const absl::StatusOr<std::optional<MatrixShape>> matrix_shape =
      MatrixShapeOf(array->shape, flags.spec.matrix_shape, needs_matrices);
  if (!matrix_shape.ok()) return matrix_shape.status();
  Spec spec = flags.spec;
  spec.matrix_shape = *matrix_shape;
  if (absl::Status status = CheckWholeElements(array->data.size(), spec, array->type); !status.ok()) {
    return status;
  }
  return Input{array->type, *matrix_shape, FileInput{std::move(file), array->data}};
}

absl::StatusOr<Input> OpenRaw(const ReduceFlags& flags, MappedFile file) {
  const std::span<const std::byte> data = file.bytes();
  if (absl::Status status = CheckWholeElements(data.size(), flags.spec, *flags.type); !status.ok()) {
    return status;
  }
  return Input{*flags.type, flags.spec.matrix_shape, FileInput{std::move(file), data}};
}

absl::StatusOr<Input> Generate(const ReduceFlags& flags) {
  const ElementType type = flags.type.value_or(ElementType::kInt64);
  const std::uint64_t elements = flags.iota.has_value() ? *flags.iota : *flags.random;
  std::uint64_t byte_count = 0;
  if (__builtin_mul_overflow(elements, ElementBytes(flags.spec, type), &byte_count)) {
    return Refuse("more bytes than 64 bits can count");
  }
  if (flags.random.has_value()) {
    return Input{type, flags.spec.matrix_shape,
                 GeneratedInput{RandomGenerator(type, flags.seed), byte_count}};
  }
  if (byte_count / ElementTypeBytes(type) > MaxIota(type)) {
    return Refuse(absl::StrCat("--iota of ", ElementTypeName(type), " goes up to ", MaxIota(type)));
  }
  return Input{type, flags.spec.matrix_shape, GeneratedInput{IotaGenerator(type), byte_count}};
}

}  // namespace

absl::StatusOr<std::optional<MatrixShape>> MatrixShapeOf(const std::vector<std::uint64_t>& shape,
                                                         std::optional<MatrixShape> asked,
                                                         bool needs_matrices) {
  if (shape.size() < 2) {
    if (needs_matrices && !asked.has_value()) {
      return Refuse("the array has no matrix dimensions: say --matrix RxC");
    }
    return asked;
  }
  if (!asked.has_value() && !needs_matrices) return std::nullopt;
  const std::uint64_t rows = shape[shape.size() - 2];
  const std::uint64_t columns = shape[shape.size() - 1];
  if (rows == 0 || columns == 0 || std::max(rows, columns) > kMaxMatrixSide) {
    return Refuse("the array's last two dimensions are no matrix");
  }
  const MatrixShape found = {static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns)};
  if (asked.has_value() && *asked != found) {
    return Refuse(absl::StrCat("the array's last two dimensions are ", rows, "x", columns, ", not ",
                               asked->rows, "x", asked->columns));
  }
  return found;
}

absl::StatusOr<Input> OpenInput(const ReduceFlags& flags) {
  if (!flags.input.has_value()) return Generate(flags);
  const bool is_npy = absl::EndsWith(*flags.input, ".npy");
  if (!is_npy && !flags.type.has_value()) return Refuse("raw elements need --dtype");
  if (*flags.input == "-") {
    if (flags.streams != 1) return Refuse("standard input goes over one stream");
    return Input{*flags.type, flags.spec.matrix_shape, StreamInput{}};
  }
  absl::StatusOr<MappedFile> file = MappedFile::Open(*flags.input);
  if (!file.ok()) return file.status();
  return is_npy ? OpenNpy(flags, *std::move(file)) : OpenRaw(flags, *std::move(file));
}

}  // namespace warpfold::cli
