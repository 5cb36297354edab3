// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Places in the source of a kernel: how they are named in reports, and when two are the same.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/simt/device.h"

namespace warpfold::kernels::simt {

inline std::string FileOf(const Where& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1));
}

// "sum.cuh:42".
inline std::string Place(const Where& where) { return absl::StrCat(FileOf(where), ":", where.line()); }

inline bool AreSame(const Where& a, const Where& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace warpfold::kernels::simt
