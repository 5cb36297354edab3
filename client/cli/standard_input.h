// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Standard input, as it arrives.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold::cli {

// Why it accepts no archive: the list of an archive's members is at its end.
inline constexpr absl::string_view kArchiveInStream =
    "an archive, as .npz files are, which no stream can be: say the file's name";

// Whether there is something to read, or the end has come; waits up to `timeout` for it.
bool AwaitStandardInput(absl::Duration timeout);

// Reads what is available, and waits only if there is nothing. Returns the number of bytes; 0 at the end.
// DEADLINE_EXCEEDED if nothing comes before the deadline.
absl::StatusOr<std::size_t> ReadStandardInput(std::span<std::byte> buffer, absl::Time deadline);

}  // namespace warpfold::cli
