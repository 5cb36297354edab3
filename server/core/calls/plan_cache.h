// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A cache of the plans of recent specifications; its keys are their serialized bytes. Callers mostly use the
// same specification for many arrays, and reading and checking a specification takes longer than reducing a
// small array.
//
// A plan depends on its specification alone, so it is never stale; what depends on the server or the call has
// to be checked for each call. Memory: kPlans plans, of specifications of at most kMaxSpecBytes.
//
// Threads: the shard's only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/reduction.h"

namespace warpfold::server {

class PlanCache {
 public:
  static constexpr std::size_t kPlans = 8;
  // Sixteen operators and all options take half as many.
  static constexpr std::size_t kMaxSpecBytes = 128;

  // The plan of exactly these bytes of a ReductionSpec, or null. Valid until the next Keep.
  const kernels::ReductionPlan* Find(absl::string_view spec) const;
  // `plan` was made from `spec`, for which there is no plan yet. It replaces the oldest one.
  void Keep(absl::string_view spec, const kernels::ReductionPlan& plan);

  std::size_t size() const { return plans_.size(); }

 private:
  struct Kept {
    std::string spec;
    kernels::ReductionPlan plan;
  };
  std::vector<Kept> plans_;
  std::size_t oldest_ = 0;  // the index that Keep replaces, once there are kPlans
};

}  // namespace warpfold::server
