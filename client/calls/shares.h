// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array on several streams, to one server or to several. Internal.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "client/calls/reducer.h"
#include "client/calls/stripes.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// `shares` come from CutIntoShares, and are more than one. Each of `streams` streams begins with one of the
// targets, in turn. A share whose server does not serve goes to another stream or server; the first failure
// of another kind ends all of them.
absl::StatusOr<v1::Reduction> ReduceInShares(const ReduceJob& job, std::span<const Stripe> shares,
                                             int streams);

}  // namespace warpfold
