// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// NumPy's file format, versions 1 to 3 (numpy.lib.format describes it): what an array file says of itself.
// Strict: a file that is not exactly an array of this service's types is refused with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array.h"

namespace warpfold::cli {

struct NpyArray {
  ElementType type = ElementType::kInt32;
  std::vector<std::uint64_t> shape;  // empty for a single value
  std::span<const std::byte> data;   // of the file: row-major, little-endian, any alignment
};

// `file` is the whole file. INVALID_ARGUMENT says what is wrong: not an .npy file, truncated, a byte order,
// an order of axes or a dtype that is not supported, or bytes left over.
absl::StatusOr<NpyArray> ParseNpy(std::span<const std::byte> file);

}  // namespace warpfold::cli
