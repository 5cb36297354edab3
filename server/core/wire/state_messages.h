// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Partial states as messages. They may come from anywhere: from this server or another one, from a client's
// disk, or from somebody who made them up.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// INVALID_ARGUMENT (BAD_STATE): the state names another reduction, or it cannot be a state of this one.
absl::StatusOr<kernels::PartialState> StateFromProto(const kernels::ReductionPlan& reduction,
                                                     const v1::PartialState& state);
v1::PartialState StateToProto(const kernels::PartialState& state);

}  // namespace warpfold::server
