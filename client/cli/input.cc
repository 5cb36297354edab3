// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/generated_arrays.h"
#include "client/cli/npy.h"
#include "client/cli/standard_input.h"
#include "client/translate.h"

namespace warpfold::cli {
namespace {

absl::Status Refuse(absl::string_view why) { return absl::InvalidArgumentError(why); }

// The matrices in an .npy array, for which the flags are checked.
absl::StatusOr<std::optional<MatrixShape>> CheckNpy(const ReduceFlags& flags, ElementType type,
                                                    const std::vector<std::uint64_t>& shape,
                                                    std::uint64_t data_bytes) {
  if (flags.type.has_value() && *flags.type != type) {
    return Refuse(absl::StrCat("the file holds ", ElementTypeName(type), ", --dtype says ",
                               ElementTypeName(*flags.type)));
  }
  const std::vector<std::string>& operators = flags.spec.operators;
  const bool needs_matrices = std::any_of(operators.begin(), operators.end(), [](const std::string& name) {
    return name == "matrix_product" || name == "affine_compose";
  });
  absl::StatusOr<std::optional<MatrixShape>> matrix_shape =
      MatrixShapeOf(shape, flags.spec.matrix_shape, needs_matrices);
  if (!matrix_shape.ok()) return matrix_shape.status();
  Spec spec = flags.spec;
  spec.matrix_shape = *matrix_shape;
  const absl::Status whole = CheckWholeElements(data_bytes, ElementBytes(spec, type));
  if (!whole.ok()) return whole;
  return matrix_shape;
}

absl::StatusOr<Input> OpenNpy(const ReduceFlags& flags, MappedFile file) {
  const absl::StatusOr<NpyArray> array = ParseNpy(file.bytes());
  if (!array.ok()) return array.status();
  const auto matrix_shape = CheckNpy(flags, array->type, array->shape, array->data.size());
  if (!matrix_shape.ok()) return matrix_shape.status();
  return Input{array->type, *matrix_shape, FileInput{std::move(file), array->data}, array->shape};
}

absl::StatusOr<std::string> ReadUpTo(std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const absl::StatusOr<std::size_t> more =
        ReadStandardInput(std::as_writable_bytes(std::span(bytes)).subspan(filled));
    if (!more.ok()) return more.status();
    if (*more == 0) break;
    filled += *more;
  }
  bytes.resize(filled);
  return bytes;
}

absl::StatusOr<Input> OpenStandardInput(const ReduceFlags& flags) {
  if (flags.streams > 1) return Refuse("standard input goes over one stream");
  // Raw elements are not waited for: the server may refuse the call before they come.
  if (flags.type.has_value()) return Input{*flags.type, flags.spec.matrix_shape, StreamInput{}};
  const absl::StatusOr<std::string> magic = ReadUpTo(kNpyMagic.size());
  if (!magic.ok()) return magic.status();
  if (*magic != kNpyMagic) return Refuse("raw elements need --dtype");
  const absl::StatusOr<NpyHead> head = ReadNpyHead(ReadUpTo);
  if (!head.ok()) return head.status();
  const auto matrix_shape = CheckNpy(flags, head->type, head->shape, head->data_bytes);
  if (!matrix_shape.ok()) return matrix_shape.status();
  return Input{head->type, *matrix_shape, StreamInput{head->data_bytes}};
}

absl::StatusOr<Input> OpenRaw(const ReduceFlags& flags, MappedFile file) {
  const std::span<const std::byte> data = file.bytes();
  const absl::Status whole = CheckWholeElements(data.size(), ElementBytes(flags.spec, *flags.type));
  if (!whole.ok()) return whole;
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

absl::Status CheckWholeElements(std::uint64_t byte_count, std::uint64_t element_bytes) {
  if (byte_count % element_bytes == 0) return absl::OkStatus();
  return Refuse(
      absl::StrCat(byte_count, " bytes are not a whole number of elements of ", element_bytes, " bytes"));
}

std::optional<std::uint64_t> Input::byte_count() const {
  if (const auto* file = std::get_if<FileInput>(&source)) return file->data.size();
  if (const auto* generated = std::get_if<GeneratedInput>(&source)) return generated->byte_count;
  return std::get<StreamInput>(source).byte_count;
}

absl::StatusOr<KeptArray> FindKeptArray(Client& client, const ReduceFlags& flags) {
  const CallOptions options = {.timeout = flags.timeout, .request_id = flags.request_id};
  const absl::StatusOr<ResidentArray> array = client.GetArray(absl::HexStringToBytes(*flags.array), options);
  if (!array.ok()) return array.status();
  const std::uint64_t rest = array->element_count - std::min(flags.first, array->element_count);
  if (flags.first > array->element_count || flags.count.value_or(0) > rest) {
    return Refuse(
        absl::StrCat("--first and --count reach beyond the array's ", array->element_count, " elements"));
  }
  return KeptArray{array->type, array->matrix_shape, array->part(flags.first, flags.count.value_or(rest))};
}

absl::StatusOr<Input> OpenInput(const ReduceFlags& flags) {
  if (!flags.input.has_value()) return Generate(flags);
  if (*flags.input == "-") return OpenStandardInput(flags);
  SurviveShortenedFiles();
  absl::StatusOr<MappedFile> file = MappedFile::Open(*flags.input);
  if (!file.ok()) return file.status();
  if (IsNpy(file->bytes()) || absl::EndsWith(*flags.input, ".npy")) return OpenNpy(flags, *std::move(file));
  if (!flags.type.has_value()) return Refuse("raw elements need --dtype");
  return OpenRaw(flags, *std::move(file));
}

}  // namespace warpfold::cli
