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

// An error with a reason, as a server sends it.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message);
// The same for one operator, which is named in the metadata.
absl::Status MakeOperatorError(absl::StatusCode code, absl::string_view reason, absl::string_view name,
                               absl::string_view message);

// A fault that the client itself found in a call's arguments, with the reason that the server would give. Its
// metadata names the field of the request that is wrong, unless that is empty.
absl::Status RefuseCall(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                        absl::string_view field = {});

// RefuseCall's INVALID_ARGUMENT (BAD_HEADER), for most of what may be wrong with arguments.
absl::Status BadHeader(absl::string_view what, absl::string_view field = {});

// Whether RefuseCall made it.
bool IsRefusedCall(const absl::Status& status);

// INVALID_ARGUMENT, for a call that was given an empty std::function.
absl::Status NoGenerator();

// CANCELLED, for a request that keep_going has ended.
absl::Status Cancelled();

// INTERNAL, for a peer that does not speak this protocol: its response cannot be trusted.
absl::Status MakeMismatch(absl::string_view what);

// A full server: RESOURCE_EXHAUSTED with a reason that is temporary.
bool IsBusy(const absl::Status& status);
// Whether it was rejected because all places for arrays are taken.
bool LacksPlaceForArray(const absl::Status& status);

// A server that is ending and asks clients to leave: UNAVAILABLE with that reason.
bool IsDraining(const absl::Status& status);

// The connection is over because the system could not read what one of its calls had to send, as with a
// mapped file that was truncated: UNAVAILABLE for all of them, and gRPC does not say whose memory it was.
bool CouldNotRead(const absl::Status& status);

// How long the server says to wait (google.rpc.RetryInfo); nothing if it names no time, or an impossible one.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace warpfold
