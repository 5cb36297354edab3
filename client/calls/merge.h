// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Merges the partial states of an array's shares into one result, with calls of Merge. Internal.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/calls/reducer.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// `states` is not empty; its states are adjacent and in array order. If they exceed the limits of one
// message, several calls are made. Any server can merge. An overloaded server is retried until the deadline,
// because the whole array has already been reduced and giving up would waste that work. With `return_state`
// the result contains the merged state and may have no values.
absl::StatusOr<v1::Reduction> MergeStates(const ReduceJob& job, std::vector<v1::PartialState> states,
                                          bool return_state = false);

}  // namespace warpfold
