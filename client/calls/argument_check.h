// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a client rejects before it sends anything, in any of its calls. Internal.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/options.h"

namespace warpfold {

// Checks the options of any call by a client that has this many connections: INVALID_ARGUMENT (BAD_HEADER)
// for streams, chunk_bytes and a request_id that are not as options.h says.
absl::Status CheckCallOptions(const CallOptions& options, int connections);

// Whether `byte_count` is a whole number of elements: INVALID_ARGUMENT (BAD_HEADER) if not.
absl::Status CheckWhole(std::uint64_t byte_count, std::uint64_t element_bytes);

// Checks the owner of an array to be kept, or of the arrays to be listed: INVALID_ARGUMENT (BAD_HEADER) for
// more than 128 characters, or for any that are not printable ASCII.
absl::Status CheckOwner(const std::string& owner);

}  // namespace warpfold
