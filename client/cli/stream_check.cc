// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/stream_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/npy.h"

namespace warpfold::cli {

absl::Status StreamCheck::Add(std::span<const std::byte> bytes) {
  byte_count_ += bytes.size();
  if (input_.byte_count.has_value()) {
    return byte_count_ > *input_.byte_count ? CheckNpyData(*input_.byte_count, byte_count_)
                                            : absl::OkStatus();
  }
  if (start_.size() == kNpyMagic.size()) return absl::OkStatus();
  const std::size_t size = std::min(bytes.size(), kNpyMagic.size() - start_.size());
  start_.append(reinterpret_cast<const char*>(bytes.data()), size);
  if (start_ != kNpyMagic) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "an .npy file, whose header --dtype would take for elements: leave it out");
}

absl::Status StreamCheck::End() const {
  if (input_.byte_count.has_value()) return CheckNpyData(*input_.byte_count, byte_count_);
  return CheckWholeElements(byte_count_, element_bytes_);
}

}  // namespace warpfold::cli
