// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks whether the bytes that come through standard input are what they were announced to be.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/cli/input.h"

namespace warpfold::cli {

class StreamCheck {
 public:
  StreamCheck(const StreamInput& input, ElementType type, const std::optional<MatrixShape>& matrix_shape)
      : input_(input), type_(type), matrix_shape_(matrix_shape) {}

  // The next bytes. INVALID_ARGUMENT if there are too many, or if they start an .npy file or an archive
  // that was announced as raw elements.
  absl::Status Add(std::span<const std::byte> bytes);

  // All bytes have come. INVALID_ARGUMENT if they are too few, or are an archive without members.
  absl::Status End() const;

 private:
  const StreamInput input_;
  const ElementType type_;
  const std::optional<MatrixShape> matrix_shape_;
  std::uint64_t byte_count_ = 0;
  std::string start_;  // the first bytes, at most kZipHeaderBytes
};

}  // namespace warpfold::cli
