// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Folds the states of an array's shares into one result. Internal.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/calls/reducer.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// `states` are adjacent, in array order, and not empty. Takes several calls where together they are more, or
// larger, than a message may have. Any server will do; full ones are asked until the deadline: all of the
// array has been reduced. With `return_state` the answer has the union's state, and may lack values.
absl::StatusOr<v1::Reduction> MergeStates(const ReduceJob& job, std::vector<v1::PartialState> states,
                                          bool return_state = false);

}  // namespace warpfold
