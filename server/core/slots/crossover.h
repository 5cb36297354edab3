// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The size up to which the host reduces an array faster than a slot's round trip: for each operator and type,
// since on the host a float32 sum is a hundred times as fast as a logsumexp, but not on a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "kernels/reduction.h"
#include "server/core/clock.h"

namespace warpfold::server {

// Threads: immutable after Measure.
class Crossovers {
 public:
  static constexpr std::uint64_t kSmallestBytes = 4 << 10;
  static constexpr std::uint64_t kLargestBytes = 1 << 20;

  // The first call of an operator loads its code and takes longer than the second; this says by how much.
  struct WarmUp {
    int operators = 0;  // pairs of an operator and a type that were run
    absl::Duration took;
    absl::Duration slowest;
    std::string slowest_operator;  // "logsumexp float64"
    int other_calls = 0;           // warm_up.h, on all devices
    absl::Duration others_took;
  };

  // Without measurements: everything goes to slots.
  Crossovers() = default;

  // Runs every operator over every type that it takes, on a slot of each device of a backend that nobody uses
  // yet, and on the host: so it also loads the kernels that first calls would wait for, and then those of all
  // other kinds of calls (warm_up.h). The first device is measured; the others are alike. Does nothing on the
  // CPU backend. If a slot fails, returns its error: users should not wait for a device that cannot reduce an
  // array now. UNAVAILABLE (DEVICE_LOST) if a slot does not finish, and then nothing may wait for it.
  static absl::StatusOr<Crossovers> Measure(kernels::Backend& backend, const Clock& clock);

  // Arrays of fewer bytes are better reduced on the host. 0 if nothing was measured.
  std::uint64_t BytesFor(const kernels::ReductionPlan& reduction) const;

  const WarmUp& warm_up() const { return warm_up_; }

 private:
  // Operator, element type, and kernels::WholeIndex of the matrices that the operator takes as a whole, since
  // kernels have a loop for each; 0 for an operator over scalars, which acts entry by entry on matrices. The
  // last part says whether there is a modulus: with one, the host divides and is slower than the device.
  using Key = std::tuple<std::string, kernels::ElementType, std::uint32_t, bool>;

  static Key KeyOf(const kernels::ReductionPlan& reduction, std::size_t op);
  absl::Status MeasureAll(kernels::Slot& slot, const Clock& clock);
  // Does nothing if there is no such reduction.
  absl::Status MeasureIfAny(const kernels::ReductionSpec& spec, kernels::Slot& slot, const Clock& clock);
  absl::Status MeasureOne(const kernels::ReductionPlan& reduction, kernels::Slot& slot, const Clock& clock);

  std::map<Key, std::uint64_t> bytes_;
  WarmUp warm_up_;
};

}  // namespace warpfold::server
