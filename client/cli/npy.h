// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// NumPy's file format, versions 1 to 3 (numpy.lib.format describes it): what an array file says about itself.
// Strict: a file that is not exactly an array of this service's types is rejected with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/array.h"

namespace warpfold::cli {

// The bytes with which every such file starts, and no other array is likely to start.
inline constexpr absl::string_view kNpyMagic = "\x93NUMPY";
bool IsNpy(std::span<const std::byte> start);

struct NpyArray {
  ElementType type = ElementType::kInt32;
  std::vector<std::uint64_t> shape;  // empty for a single value
  std::span<const std::byte> data;   // part of the file: row-major, little-endian, any alignment
};

// `file` is the whole file. INVALID_ARGUMENT says what is wrong: not an .npy file, a truncated one, a byte
// order, an order of axes or a dtype that is not supported, or bytes left over.
absl::StatusOr<NpyArray> ParseNpy(std::span<const std::byte> file);

// What the header says about a file that arrives piece by piece.
struct NpyHead {
  ElementType type = ElementType::kInt32;
  std::vector<std::uint64_t> shape;
  std::uint64_t data_bytes = 0;
};

// Takes the next `size` bytes, or all that are left if they are fewer.
using NpyReader = absl::FunctionRef<absl::StatusOr<std::string>(std::size_t size)>;

// Reads from after kNpyMagic to the data. Errors as for ParseNpy, and those of `read`.
absl::StatusOr<NpyHead> ReadNpyHead(NpyReader read);

// Whether the data has the length that the header announces.
absl::Status CheckNpyData(std::uint64_t announced_bytes, std::uint64_t bytes);

}  // namespace warpfold::cli
