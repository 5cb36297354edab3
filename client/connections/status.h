// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Statuses with reasons. Internal; client/error.h is the public part.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold {

// The same code and message, and the standard error details as payloads under their type URLs. A
// deadline that gRPC itself noticed gets the reason DEADLINE.
absl::Status FromGrpc(const grpc::Status& status);

// An error with a reason, as a server gives them.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message);
// The same of one operator, which is named in the metadata.
absl::Status MakeOperatorError(absl::StatusCode code, absl::string_view reason, absl::string_view name,
                               absl::string_view message);

// What the client found at fault in a call's arguments by itself, with the reason that the server would give.
absl::Status RefuseCall(absl::StatusCode code, absl::string_view reason, absl::string_view message);

// RefuseCall's INVALID_ARGUMENT (BAD_HEADER), for most of what may be wrong with arguments.
absl::Status BadHeader(absl::string_view what);

// Whether RefuseCall made it.
bool IsRefusedCall(const absl::Status& status);

// INVALID_ARGUMENT, for a call that was given an empty std::function.
absl::Status NoGenerator();

// CANCELLED, for a request that keep_going has ended.
absl::Status Cancelled();

// INTERNAL, for a peer that does not speak this protocol: what it answered cannot be believed.
absl::Status MakeMismatch(absl::string_view what);

// A full server: RESOURCE_EXHAUSTED with a reason that passes by itself.
bool IsBusy(const absl::Status& status);
// Whether it was refused since all places for arrays are taken.
bool LacksPlaceForArray(const absl::Status& status);

// A server that ends and asks to be left: UNAVAILABLE with that reason.
bool IsDraining(const absl::Status& status);

// The connection is over because the system could not read what one of its calls had to send, as from a
// mapped file that was cut: UNAVAILABLE for all of them, and gRPC does not say whose memory it was.
bool CouldNotRead(const absl::Status& status);

// How long the server says to wait (google.rpc.RetryInfo); nothing if it says nothing, or not what can be.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace warpfold
