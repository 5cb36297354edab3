// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Folds the partial states of adjacent stripes.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "kernels/reduction.h"
#include "server/core/calls/service.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// If `accepted` is not null, sets it to the plan of a good spec, whatever the outcome for the states.
//
// Threads: any; takes time in proportion to the states.
absl::StatusOr<v1::MergeResponse> Merge(const Service& service, const v1::MergeRequest& request,
                                        std::optional<kernels::ReductionPlan>* accepted = nullptr);

}  // namespace warpfold::server
