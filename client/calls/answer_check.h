// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks that a response fits the request: the peer may have another version, be broken, or not be a Warpfold
// server. All errors from here are INTERNAL. Internal.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/calls/stripes.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// The reduction of `range` by `spec`: one result for each operator, in their order, with a value of the kind
// that the operator returns or an error, and as many elements as were sent. With `state`, also a partial
// state of that range; results may then lack their values.
absl::Status CheckReduction(const v1::ReductionSpec& spec, const Stripe& range, bool state,
                            const v1::Reduction& reduction);

// Checks that the response has what every server reports about itself.
absl::Status CheckServerInfo(const v1::GetServerInfoResponse& info);

}  // namespace warpfold
