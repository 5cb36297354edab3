// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Statuses that programs can read: a code, a sentence for people, and a reason with metadata that the server
// sends on as google.rpc.ErrorInfo. Messages name the field and the limit, never a path, an address or the
// contents of memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpfold::kernels {

using ErrorMetadata = std::vector<std::pair<std::string, std::string>>;

// `reason` is one of proto/error_reasons.h.
absl::Status Error(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                   const ErrorMetadata& metadata = {});

// The reason of a status made by Error, or "" for any other status.
std::string ErrorReason(const absl::Status& status);
ErrorMetadata ErrorDetails(const absl::Status& status);

}  // namespace warpfold::kernels
