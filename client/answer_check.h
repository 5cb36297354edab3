// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether an answer is one to what was asked: a peer may be of another version, broken, or no Warpfold
// server. All that is not OK here is INTERNAL. Internal.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/stripes.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// The reduction of `range` by `spec`: one result for each operator, in their order, of the kind that the
// operator answers, and as many elements as were sent. With `state`, a partial state of that range too;
// results may then lack their values.
absl::Status CheckReduction(const v1::ReductionSpec& spec, const Stripe& range, bool state,
                            const v1::Reduction& reduction);

// What every server says of itself is there.
absl::Status CheckServerInfo(const v1::GetServerInfoResponse& info);

}  // namespace warpfold
