// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Folds the partial states of adjacent stripes.
#pragma once

#include "absl/status/statusor.h"
#include "server/core/calls/service.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// Threads: any; takes time in proportion to the states.
absl::StatusOr<v1::MergeResponse> Merge(const Service& service, const v1::MergeRequest& request);

}  // namespace warpfold::server
