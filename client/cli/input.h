// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The array that the command line names, ready to be sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/cli/flags.h"
#include "client/cli/mapped_file.h"
#include "client/cli/npz.h"
#include "client/client.h"

namespace warpfold::cli {

// A file's elements.
struct FilePiece {
  FilePiece(std::string path, MappedFile mapped) : name(std::move(path)), file(std::move(mapped)) {}
  std::string name;
  MappedFile file;
  std::uint64_t byte_count = 0;
  std::span<const std::byte> data;  // where they lie in the file; empty if they are compressed
  std::optional<NpzMember> member;  // of an archive
  std::uint64_t head_bytes = 0;     // of the unpacked member, before the elements
  bool packed() const { return member.has_value() && member->packed; }
};

// One array, in pieces.
struct FilesInput {
  std::vector<FilePiece> pieces;
};

struct GeneratedInput {
  Generator generator;
  std::uint64_t byte_count = 0;
};

// Standard input, from where the elements start.
struct StreamInput {
  std::optional<std::uint64_t> byte_count = std::nullopt;  // of an .npy file; raw elements go to the end
};

struct Input {
  ElementType type = ElementType::kInt32;
  std::optional<MatrixShape> matrix_shape;
  std::variant<FilesInput, GeneratedInput, StreamInput> source;
  std::vector<std::uint64_t> shape = {};  // of one .npy file, or member of an archive

  // None for a stream whose length is not known.
  std::optional<std::uint64_t> byte_count() const;
};

// A part of an array that the server keeps.
struct KeptArray {
  ElementType type = ElementType::kInt32;
  std::optional<MatrixShape> matrix_shape;
  ArrayReference part;
};
absl::StatusOr<KeptArray> FindKeptArray(Client& client, const ReduceFlags& flags);

enum class Archives { kRead, kRefused };

// The statuses' messages are for people: what is wrong with the input or with the flags that describe it.
// *name is then the name of the input.
absl::StatusOr<Input> OpenInput(const ReduceFlags& flags, std::string* name,
                                Archives archives = Archives::kRead);

// The matrices in an array of `shape`: `asked` if given, which the last two dimensions must equal unless
// there is only one, or it is a row, of which the last dimension must have the columns; otherwise these two
// if `needs_matrices`; otherwise none.
absl::StatusOr<std::optional<MatrixShape>> MatrixShapeOf(const std::vector<std::uint64_t>& shape,
                                                         std::optional<MatrixShape> asked,
                                                         bool needs_matrices);

// INVALID_ARGUMENT if `byte_count` bytes end inside an element, which is a matrix if `matrix_shape` is set.
absl::Status CheckWholeElements(std::uint64_t byte_count, ElementType type,
                                const std::optional<MatrixShape>& matrix_shape);

}  // namespace warpfold::cli
