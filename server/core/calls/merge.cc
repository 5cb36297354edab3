// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/merge.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/partial_state.h"
#include "proto/error_reasons.h"
#include "proto/limits.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/state_messages.h"

namespace warpfold::server {
namespace {

// Says which state is wrong, by its range: clients merge many states in groups, whose indices callers do not
// know.
absl::Status ErrorOf(const v1::PartialState& state, const absl::Status& status) {
  const std::string message = absl::StrCat("the state of ", state.element_count(), " elements from element ",
                                           state.first_element(), " on: ", status.message());
  return kernels::Error(status.code(), kernels::ErrorReason(status), message, kernels::ErrorDetails(status));
}

}  // namespace

absl::StatusOr<v1::MergeResponse> Merge(const Service& service, const v1::MergeRequest& request,
                                        std::optional<kernels::ReductionPlan>* accepted) {
  const absl::StatusOr<kernels::ReductionPlan> reduction = PlanFromProto(request.spec());
  if (!reduction.ok()) return reduction.status();
  if (accepted != nullptr) *accepted = *reduction;
  if (!reduction->canonical()) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                          "algorithm: the states of a named algorithm are not canonical and do not merge",
                          {{"field", "algorithm"}});
  }
  if (request.states().empty() || request.states_size() > kMaxMergedStates) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                          absl::StrCat("states must have 1 to ", kMaxMergedStates, " entries"),
                          {{"field", "states"}});
  }
  absl::StatusOr<kernels::PartialState> merged = StateFromProto(*reduction, request.states(0));
  if (!merged.ok()) return ErrorOf(request.states(0), merged.status());
  for (int i = 1; i < request.states_size(); ++i) {
    const absl::StatusOr<kernels::PartialState> next = StateFromProto(*reduction, request.states(i));
    if (!next.ok()) return ErrorOf(request.states(i), next.status());
    if (absl::Status status = merged->Append(*next); !status.ok()) {
      return ErrorOf(request.states(i), status);
    }
  }
  v1::MergeResponse response;
  v1::Reduction& out = *response.mutable_reduction();
  if (absl::Status status = FillReduction(*merged, request.return_state(), &out); !status.ok()) {
    return status;
  }
  out.set_device(service.backend.device());
  return response;
}

}  // namespace warpfold::server
