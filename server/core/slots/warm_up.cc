// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/warm_up.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/geometry.h"
#include "kernels/operators/table.h"
#include "kernels/reduction.h"
#include "kernels/segments.h"
#include "server/core/slots/device_health.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kSegments = 8;
constexpr kernels::ElementShape kSmallMatrix = {2, 2};

class OtherCalls {
 public:
  OtherCalls(kernels::Slot& slot, const Clock& clock, int& calls)
      : slot_(slot), clock_(clock), calls_(calls) {}

  // A range of one leaf, in the slot's staging buffer.
  absl::Status Range(const kernels::ReductionPlan& reduction) {
    if (absl::Status status = slot_.Start(reduction, 0, reduction.leaf_elements()); !status.ok())
      return status;
    return EndRange(reduction);
  }

  // The same, as two pieces.
  absl::Status Pieces(const kernels::ReductionPlan& reduction) {
    const kernels::HostPiece leaf = slot_.staging().first(reduction.leaf_bytes());
    const std::vector<kernels::HostPiece> pieces = {leaf.first(leaf.size() / 2),
                                                    leaf.subspan(leaf.size() / 2)};
    if (absl::Status status = slot_.StartPieces(reduction, 0, reduction.leaf_elements(), pieces);
        !status.ok())
      return status;
    return EndRange(reduction);
  }

  absl::Status Segments(const kernels::ReductionPlan& reduction) {
    const kernels::SegmentCut cut = {.segment_count = std::min(kSegments, slot_.SegmentCapacity(reduction)),
                                     .length = reduction.leaf_elements() / kSegments};
    if (absl::Status status = slot_.StartSegments(reduction, cut); !status.ok()) return status;
    if (absl::Status status = AwaitSlot(slot_, reduction.leaf_bytes(), clock_); !status.ok()) return status;
    ++calls_;
    return slot_.WaitSegments().status();
  }

 private:
  absl::Status EndRange(const kernels::ReductionPlan& reduction) {
    if (absl::Status status = AwaitSlot(slot_, reduction.leaf_bytes(), clock_); !status.ok()) return status;
    ++calls_;
    return slot_.Wait().status();
  }

  kernels::Slot& slot_;
  const Clock& clock_;
  int& calls_;
};

// All calls of one operator over scalars of one type, except the plain one.
absl::Status CallAll(OtherCalls& calls, kernels::ReductionSpec spec) {
  for (const bool ignore_nan : {false, true}) {
    spec.ignore_nan = ignore_nan;
    spec.shape = {};
    const absl::StatusOr<kernels::ReductionPlan> scalars = kernels::ReductionPlan::Create(spec);
    if (!scalars.ok()) return absl::OkStatus();  // not over these elements; or it follows no policy about NaN
    if (ignore_nan) {
      if (absl::Status status = calls.Range(*scalars); !status.ok()) return status;
    }
    if (absl::Status status = calls.Segments(*scalars); !status.ok()) return status;
    spec.shape = kSmallMatrix;
    const absl::StatusOr<kernels::ReductionPlan> entrywise = kernels::ReductionPlan::Create(spec);
    if (entrywise.ok()) {
      if (absl::Status status = calls.Range(*entrywise); !status.ok()) return status;
    }
    if (scalars->operators()[0].entry->ignores_nan) break;  // integers have no NaN
  }
  return absl::OkStatus();
}

// One operator over whole matrices of the dimensions that Crossovers treats as alike: a device may have
// separate kernels for some of them, and only it knows for which.
absl::Status CallForLargeMatrices(OtherCalls& calls, kernels::ReductionSpec spec) {
  for (std::uint32_t d = kernels::kMaxFixedDimension + 1; d <= kernels::kMaxMatrixDimension; ++d) {
    spec.shape = {d, d};
    for (const bool has_modulus : {false, true}) {
      spec.modulus = has_modulus ? std::optional(kAnyModulus) : std::nullopt;
      const absl::StatusOr<kernels::ReductionPlan> matrices = kernels::ReductionPlan::Create(spec);
      if (!matrices.ok()) continue;  // the operator takes none of this shape, or no modulus
      if (absl::Status status = calls.Range(*matrices); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WarmUpOtherCalls(kernels::Slot& slot, bool opens_pieces, const Clock& clock, int& calls) {
  OtherCalls others(slot, clock, calls);
  // Zeros are numbers of every type.
  std::fill(slot.staging().begin(), slot.staging().end(), std::byte{0});
  const auto names = kernels::OperatorNames();
  for (std::size_t op = 0; op < names.size(); ++op) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      kernels::ReductionSpec spec;
      spec.operators = {std::string(names[op])};
      spec.element_type = ElementTypeAt(t);
      const bool takes_scalars = kernels::OperatorTakesScalars(static_cast<int>(op), spec.element_type);
      absl::Status status = takes_scalars ? CallAll(others, spec) : CallForLargeMatrices(others, spec);
      if (!status.ok()) return status;
    }
  }
  if (!opens_pieces) return absl::OkStatus();
  kernels::ReductionSpec sum;
  sum.operators = {"sum"};
  sum.element_type = kernels::ElementType::kFloat32;
  return others.Pieces(*kernels::ReductionPlan::Create(sum));
}

}  // namespace warpfold::server
