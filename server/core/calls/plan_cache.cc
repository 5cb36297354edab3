// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/plan_cache.h"

#include <utility>

namespace warpfold::server {

const kernels::ReductionPlan* PlanCache::Find(absl::string_view spec) const {
  for (const Kept& kept : plans_) {
    if (kept.spec == spec) return &kept.plan;
  }
  return nullptr;
}

void PlanCache::Keep(absl::string_view spec, const kernels::ReductionPlan& plan) {
  if (spec.size() > kMaxSpecBytes) return;
  Kept kept = {.spec = std::string(spec), .plan = plan};
  if (plans_.size() < kPlans) return plans_.push_back(std::move(kept));
  plans_[oldest_] = std::move(kept);
  oldest_ = (oldest_ + 1) % kPlans;
}

}  // namespace warpfold::server
