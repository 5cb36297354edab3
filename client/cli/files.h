// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files as one array, sent to a server.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/input.h"
#include "client/client.h"

namespace warpfold::cli {

// The outcome of a reduction whose input may turn out to be unreadable on the way.
struct Outcome {
  absl::Status input_error = {};
  absl::StatusOr<Reduction> reduction = absl::UnknownError("");
  std::string bad_input = {};  // its name, if it is one of several
};

// Mapped files are sent from where they are, striped; if one is compressed, all are sent over one stream as
// they are unpacked, and are unpacked again if the call is retried. An input error takes precedence over any
// other, since it may be the cause of the call's error.
Outcome ReduceFiles(Client& client, const Spec& spec, ElementType type, const FilesInput& files,
                    const CallOptions& options);

}  // namespace warpfold::cli
