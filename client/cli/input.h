// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The array that the command line names, ready to be sent.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/cli/flags.h"
#include "client/cli/mapped_file.h"
#include "client/client.h"

namespace warpfold::cli {

struct FileInput {
  MappedFile file;
  std::span<const std::byte> data;  // of the file
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
  std::variant<FileInput, GeneratedInput, StreamInput> source;
  std::vector<std::uint64_t> shape = {};  // of an .npy file

  // None of a stream whose length is not known.
  std::optional<std::uint64_t> byte_count() const;
};

// A part of an array that the server keeps.
struct KeptArray {
  ElementType type = ElementType::kInt32;
  std::optional<MatrixShape> matrix_shape;
  ArrayReference part;
};
absl::StatusOr<KeptArray> FindKeptArray(Client& client, const ReduceFlags& flags);

// The statuses' messages are for people: what is wrong with the input or with the flags that describe it.
absl::StatusOr<Input> OpenInput(const ReduceFlags& flags);

// The matrices in an array of `shape`: `asked` if given, which the last two dimensions must equal unless
// there is only one; else these two where `needs_matrices`; else none.
absl::StatusOr<std::optional<MatrixShape>> MatrixShapeOf(const std::vector<std::uint64_t>& shape,
                                                         std::optional<MatrixShape> asked,
                                                         bool needs_matrices);

// INVALID_ARGUMENT if `byte_count` bytes end inside an element.
absl::Status CheckWholeElements(std::uint64_t byte_count, std::uint64_t element_bytes);

}  // namespace warpfold::cli
