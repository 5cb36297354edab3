// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The refusals of bad requests that several parts of the server make. reduction.proto lists all reasons.
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

// The same of a field that is beyond a limit, whose number is metadata, too.
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
