// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/argument_check.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "client/calls/chunk_stream.h"
#include "client/connections/status.h"
#include "proto/text.h"

namespace warpfold {
namespace {

// Texts that are not UTF-8 would fail only when they become a message, and without the field's name.
absl::Status CheckText(absl::string_view field, const std::string& text) {
  if (IsText(text, kMaxTextBytes)) return absl::OkStatus();
  return BadHeader(absl::StrCat(field, " must be at most ", kMaxTextBytes, " printable ASCII characters"),
                   field);
}

absl::Status CheckChunkBytes(std::size_t chunk_bytes) {
  const bool good =
      std::has_single_bit(chunk_bytes) && chunk_bytes >= kMinChunkBytes && chunk_bytes <= kMaxChunkBytes;
  if (good || chunk_bytes == 0) return absl::OkStatus();
  return BadHeader(absl::StrCat("chunk_bytes must be 0, or a power of two of ", kMinChunkBytes, " to ",
                                kMaxChunkBytes, ", not ", chunk_bytes),
                   "chunk_bytes");
}

}  // namespace

absl::Status CheckCallOptions(const CallOptions& options, int connections) {
  if (absl::Status status = CheckText("request_id", options.request_id); !status.ok()) return status;
  if (options.streams < 0 || options.streams > connections) {
    return BadHeader(absl::StrCat("streams must be 0 to the ", connections, " connections of this client"),
                     "streams");
  }
  return CheckChunkBytes(options.chunk_bytes);
}

absl::Status CheckWhole(std::uint64_t byte_count, std::uint64_t element_bytes) {
  if (byte_count % element_bytes == 0) return absl::OkStatus();
  return BadHeader(absl::StrCat(byte_count, " bytes are not a whole number of elements of ", element_bytes));
}

absl::Status CheckOwner(const std::string& owner) { return CheckText("owner", owner); }

}  // namespace warpfold
