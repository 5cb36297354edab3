// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The statuses of bad requests, which several parts of the server return. reduction.proto lists all reasons.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {

// INVALID_ARGUMENT (BAD_HEADER) with the message "`field` `what`", and the field's name as metadata.
inline absl::Status BadHeader(absl::string_view field, absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                        absl::StrCat(field, " ", what), {{"field", std::string(field)}});
}

// The same for a field that exceeds `limit`, which is in the metadata under the key "value".
inline absl::Status BadHeader(absl::string_view field, absl::string_view what, std::uint64_t limit) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                        absl::StrCat(field, " ", what),
                        {{"field", std::string(field)}, {"value", absl::StrCat(limit)}});
}

// INVALID_ARGUMENT (BAD_MESSAGE).
inline absl::Status BadMessage(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMessage, what);
}

}  // namespace warpfold::server
