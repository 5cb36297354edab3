// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The header of an .npy file: a Python dictionary literal with three keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpfold::cli {

struct NpyHeader {
  std::string descr;  // as "<i4"
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// `text` is the dictionary with the white space around it. INVALID_ARGUMENT if it is not exactly one.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

}  // namespace warpfold::cli
