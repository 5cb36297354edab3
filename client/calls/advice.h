// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How an array is sent if the caller leaves that open. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/connections/targets.h"
#include "client/options.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

struct TransferPlan {
  int streams = 1;
  std::uint64_t chunk_bytes = 0;  // a multiple of every element type's size
};

// Returns what all targets together advise for an array of `byte_count` bytes: one stream at least, and at
// most `most_streams`. Each target is asked until it has responded once, and only for arrays that are large
// enough; a target that does not respond is not a failure. All are asked at the same time: may block for a
// round trip, and for 2 s if one does not respond. CANCELLED if keep_going said so.
absl::StatusOr<TransferPlan> PlanTransfer(Targets& targets, std::uint64_t byte_count, int most_streams,
                                          absl::Time deadline, const Interrupts& interrupts);

// Returns the plan for an array for which the caller gave the number of streams.
TransferPlan PlanTransferOver(int streams);

// One attempt to ask.
absl::StatusOr<v1::GetServerInfoResponse> AskServerInfo(const Connection& connection, absl::Time deadline,
                                                        const Interrupts& interrupts);

}  // namespace warpfold
