// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Statuses with reasons. Internal; client/error.h is the public part.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpfold {

// The same code and message, and the standard error details as payloads under their type URLs. A
// deadline that gRPC itself noticed gets the reason DEADLINE.
absl::Status FromGrpc(const grpc::Status& status);

// An error that the client finds before the server does, with the reason that the server would give.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message);

}  // namespace warpfold
