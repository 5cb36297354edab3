// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/stream_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/npy.h"
#include "client/cli/refuse.h"
#include "client/cli/standard_input.h"
#include "client/cli/zip_directory.h"

namespace warpfold::cli {

absl::Status StreamCheck::Add(std::span<const std::byte> bytes) {
  byte_count_ += bytes.size();
  if (input_.byte_count.has_value()) {
    if (byte_count_ <= *input_.byte_count) return absl::OkStatus();
    // Their number is not known before the end, which this does not wait for.
    return Refuse(
        absl::StrCat("too long: the header announces ", *input_.byte_count, " bytes of data, and more came"));
  }
  if (start_.size() == kZipHeaderBytes) return absl::OkStatus();
  const std::size_t size = std::min(bytes.size(), kZipHeaderBytes - start_.size());
  start_.append(reinterpret_cast<const char*>(bytes.data()), size);
  if (BeginsWithZipMember(std::as_bytes(std::span(start_)))) return Refuse(kArchiveInStream);
  if (!IsNpy(std::as_bytes(std::span(start_)))) return absl::OkStatus();
  return Refuse("an .npy file, whose header --dtype would take for elements: leave it out");
}

absl::Status StreamCheck::End() const {
  if (input_.byte_count.has_value()) return CheckNpyData(*input_.byte_count, byte_count_);
  if (IsZipWithoutMembers(std::as_bytes(std::span(start_)), byte_count_)) return Refuse(kArchiveInStream);
  return CheckWholeElements(byte_count_, type_, matrix_shape_);
}

}  // namespace warpfold::cli
