// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/calls/translate.h"
#include "client/cli/deadline.h"
#include "client/cli/generated_arrays.h"
#include "client/cli/npy.h"
#include "client/cli/refuse.h"
#include "client/cli/standard_input.h"
#include "client/cli/unpacker.h"
#include "client/cli/zip_directory.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"

namespace warpfold::cli {
namespace {

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
  const bool has_maps = std::find(operators.begin(), operators.end(), "affine_compose") != operators.end();
  if (has_maps && !flags.spec.matrix_shape.has_value() && shape.size() > 1 && shape.back() == 2 &&
      shape[shape.size() - 2] != 1) {
    return Refuse("affine_compose takes 1x2 matrices: say --matrix 1x2 if they are the array's rows of 2");
  }
  absl::StatusOr<std::optional<MatrixShape>> matrix_shape =
      MatrixShapeOf(shape, flags.spec.matrix_shape, needs_matrices);
  if (!matrix_shape.ok()) return matrix_shape.status();
  Spec spec = flags.spec;
  spec.matrix_shape = *matrix_shape;
  const absl::Status whole = CheckWholeElements(data_bytes, type, spec.matrix_shape);
  if (!whole.ok()) return whole;
  return matrix_shape;
}

// What one file says about the array.
struct OpenedFile {
  ElementType type;
  std::optional<MatrixShape> matrix_shape;
  std::vector<std::uint64_t> shape;  // as in an .npy file
  FilePiece piece;
};

absl::StatusOr<OpenedFile> OpenNpy(const ReduceFlags& flags, FilePiece piece,
                                   std::span<const std::byte> bytes) {
  const absl::StatusOr<NpyArray> array = ParseNpy(bytes);
  if (!array.ok()) return array.status();
  const auto matrix_shape = CheckNpy(flags, array->type, array->shape, array->data.size());
  if (!matrix_shape.ok()) return matrix_shape.status();
  piece.data = array->data;
  piece.byte_count = array->data.size();
  return OpenedFile{array->type, *matrix_shape, array->shape, std::move(piece)};
}

// The next `size` bytes that `read` returns, or all if there are fewer.
template <typename Read>
absl::StatusOr<std::string> ReadUpTo(std::size_t size, const Read& read) {
  std::string bytes(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const absl::StatusOr<std::size_t> more = read(std::as_writable_bytes(std::span(bytes)).subspan(filled));
    if (!more.ok()) return more.status();
    if (*more == 0) break;
    filled += *more;
  }
  bytes.resize(filled);
  return bytes;
}

absl::StatusOr<OpenedFile> OpenNpz(const ReduceFlags& flags, FilePiece piece) {
  const absl::StatusOr<NpzMember> member = NpzMember::Find(piece.file.bytes(), flags.member);
  if (!member.ok()) return member.status();
  piece.member = *member;
  const auto no_npy = [&member] {
    return Refuse(absl::StrCat("member '", member->name, "' is not an .npy file"));
  };
  if (!member->packed)
    return IsNpy(member->bytes) ? OpenNpy(flags, std::move(piece), member->bytes) : no_npy();
  Unpacker unpacker(*member);
  const auto read = [&unpacker](std::size_t size) {
    return ReadUpTo(size, [&unpacker](std::span<std::byte> buffer) { return unpacker.Read(buffer); });
  };
  const absl::StatusOr<std::string> magic = read(kNpyMagic.size());
  if (!magic.ok()) return magic.status();
  if (*magic != kNpyMagic) return no_npy();
  const absl::StatusOr<NpyHead> head = ReadNpyHead(read);
  if (!head.ok()) return head.status();
  piece.head_bytes = unpacker.position();
  if (absl::Status status = CheckNpyData(head->data_bytes, member->byte_count - piece.head_bytes);
      !status.ok()) {
    return status;
  }
  const auto matrix_shape = CheckNpy(flags, head->type, head->shape, head->data_bytes);
  if (!matrix_shape.ok()) return matrix_shape.status();
  piece.byte_count = head->data_bytes;
  // Otherwise the end is noticed when the last element is sent.
  if (piece.byte_count == 0) {
    if (absl::Status status = unpacker.ExpectEnd(); !status.ok()) return status;
  }
  return OpenedFile{head->type, *matrix_shape, head->shape, std::move(piece)};
}

absl::StatusOr<Input> OpenStandardInput(const ReduceFlags& flags) {
  if (flags.streams > 1) return Refuse("standard input goes over one stream");
  // This does not wait for raw elements: the server may reject the call before they come.
  if (flags.type.has_value()) return Input{*flags.type, flags.spec.matrix_shape, StreamInput{}};
  const auto read = [&flags](std::size_t size) {
    return ReadUpTo(
        size, [&flags](std::span<std::byte> buffer) { return ReadStandardInput(buffer, flags.deadline); });
  };
  const absl::StatusOr<std::string> magic = read(kNpyMagic.size());
  if (!magic.ok()) return magic.status();
  const auto start = std::as_bytes(std::span(*magic));
  if (BeginsAsZip(start) || BeginsAsZipEnd(start)) return Refuse(kArchiveInStream);
  if (*magic != kNpyMagic) return Refuse("raw elements need --dtype");
  const absl::StatusOr<NpyHead> head = ReadNpyHead(read);
  if (!head.ok()) return head.status();
  const auto matrix_shape = CheckNpy(flags, head->type, head->shape, head->data_bytes);
  if (!matrix_shape.ok()) return matrix_shape.status();
  return Input{head->type, *matrix_shape, StreamInput{head->data_bytes}};
}

absl::StatusOr<OpenedFile> OpenRaw(const ReduceFlags& flags, FilePiece piece) {
  piece.data = piece.file.bytes();
  piece.byte_count = piece.data.size();
  const absl::Status whole = CheckWholeElements(piece.byte_count, *flags.type, flags.spec.matrix_shape);
  if (!whole.ok()) return whole;
  return OpenedFile{*flags.type, flags.spec.matrix_shape, {}, std::move(piece)};
}

absl::StatusOr<OpenedFile> OpenFile(const ReduceFlags& flags, const std::string& path, Archives archives) {
  if (path == "-") return Refuse("standard input is an array alone, not one of several");
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, "; '-' reads a stream");
  if (!file.ok()) return file.status();
  const std::span<const std::byte> bytes = file->bytes();
  FilePiece piece(path, *std::move(file));
  const bool is_npy = IsNpy(bytes) || absl::EndsWith(path, ".npy");
  const bool is_archive =
      absl::EndsWith(path, ".npz") || IsZip(bytes) || (!flags.type.has_value() && BeginsAsZip(bytes));
  if (is_archive && !is_npy) {
    if (archives == Archives::kRefused) return Refuse("an archive: unpack the array first");
    return OpenNpz(flags, std::move(piece));
  }
  if (flags.member.has_value()) return Refuse("--member needs an .npz file");
  if (is_npy) return OpenNpy(flags, std::move(piece), bytes);
  if (!flags.type.has_value()) return Refuse("raw elements need --dtype");
  return OpenRaw(flags, std::move(piece));
}

std::string ShapeText(const std::optional<MatrixShape>& shape) {
  return shape.has_value() ? absl::StrCat(shape->rows, "x", shape->columns, " matrices") : "scalars";
}

absl::StatusOr<Input> OpenFiles(const ReduceFlags& flags, std::string* name, Archives archives) {
  SurviveShortenedFiles();
  AllowManyFiles();
  Input input;
  FilesInput files;
  for (const std::string& path : flags.inputs) {
    *name = path;
    absl::StatusOr<OpenedFile> file = OpenFile(flags, path, archives);
    if (!file.ok()) return file.status();
    if (!files.pieces.empty() && file->type != input.type) {
      return Refuse(absl::StrCat("it holds ", ElementTypeName(file->type), ", the files before it ",
                                 ElementTypeName(input.type)));
    }
    if (!files.pieces.empty() && file->matrix_shape != input.matrix_shape) {
      return Refuse(absl::StrCat("it holds ", ShapeText(file->matrix_shape), ", the files before it ",
                                 ShapeText(input.matrix_shape)));
    }
    if (file->piece.packed() && flags.streams > 1) return Refuse("a compressed array goes over one stream");
    input.type = file->type;
    input.matrix_shape = file->matrix_shape;
    if (flags.inputs.size() == 1) input.shape = std::move(file->shape);
    files.pieces.push_back(std::move(file->piece));
  }
  input.source = std::move(files);
  return input;
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
  if (asked.has_value() && asked->rows == 1 && asked->columns == shape.back()) return asked;
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

absl::Status CheckWholeElements(std::uint64_t byte_count, ElementType type,
                                const std::optional<MatrixShape>& matrix_shape) {
  const std::uint64_t element_bytes = ElementBytes({.matrix_shape = matrix_shape}, type);
  if (byte_count % element_bytes == 0) return absl::OkStatus();
  if (!matrix_shape.has_value()) {
    return Refuse(
        absl::StrCat(byte_count, " bytes are not a whole number of elements of ", element_bytes, " bytes"));
  }
  // The server, which has the last word on this, is not asked about bytes that do not fit.
  constexpr std::uint32_t kMostOfServers = 32;
  if (std::max(matrix_shape->rows, matrix_shape->columns) > kMostOfServers) {
    return Refuse(absl::StrCat(ShapeText(matrix_shape),
                               " are larger than the 32x32 that servers accept, and ", byte_count,
                               " bytes are not a whole number of them"));
  }
  return Refuse(absl::StrCat(byte_count, " bytes are not a whole number of ", ShapeText(matrix_shape), " of ",
                             element_bytes, " bytes"));
}

std::optional<std::uint64_t> Input::byte_count() const {
  if (const auto* generated = std::get_if<GeneratedInput>(&source)) return generated->byte_count;
  const auto* const files = std::get_if<FilesInput>(&source);
  if (files == nullptr) return std::get<StreamInput>(source).byte_count;
  std::uint64_t byte_count = 0;
  for (const FilePiece& piece : files->pieces) byte_count += piece.byte_count;
  return byte_count;
}

absl::StatusOr<KeptArray> FindKeptArray(Client& client, const ReduceFlags& flags) {
  const CallOptions options = {.timeout = TimeLeft(flags.deadline), .request_id = flags.request_id};
  const absl::StatusOr<ResidentArray> array = client.GetArray(absl::HexStringToBytes(*flags.array), options);
  if (!array.ok()) return array.status();
  const std::uint64_t rest = array->element_count - std::min(flags.first, array->element_count);
  if (flags.first > array->element_count || flags.count.value_or(0) > rest) {
    return RefuseCall(
        absl::StatusCode::kInvalidArgument, reason::kBadHeader,
        absl::StrCat("--first and --count reach beyond the array's ", array->element_count, " elements"));
  }
  return KeptArray{array->type, array->matrix_shape, array->part(flags.first, flags.count.value_or(rest))};
}

absl::StatusOr<Input> OpenInput(const ReduceFlags& flags, std::string* name, Archives archives) {
  *name = flags.inputs.empty() ? "input" : flags.inputs.front();
  if (flags.inputs.empty()) return Generate(flags);
  if (flags.inputs.size() > 1 || flags.inputs.front() != "-") return OpenFiles(flags, name, archives);
  if (flags.member.has_value()) return Refuse("--member needs an .npz file");
  return OpenStandardInput(flags);
}

}  // namespace warpfold::cli
