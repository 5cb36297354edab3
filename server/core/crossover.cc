// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/core/crossover.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/reduction.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kSmallestBytes = 4096;
constexpr std::uint64_t kLargestBytes = std::uint64_t{1} << 20;
constexpr int kRepetitions = 5;

// The best of a few runs: the first ones warm caches and clocks up.
template <typename Work>
absl::StatusOr<absl::Duration> BestTime(const Clock& clock, Work work) {
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < kRepetitions; ++i) {
    const absl::Time start = clock();
    if (absl::Status status = work(); !status.ok()) return status;
    best = std::min(best, clock() - start);
  }
  return best;
}

}  // namespace

absl::StatusOr<std::uint64_t> MeasureCrossoverBytes(kernels::Backend& backend, const Clock& clock) {
  if (backend.name() == "cpu" || backend.slots().empty()) return 0;
  kernels::Slot& slot = *backend.slots().front();
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kFloat32;
  const absl::StatusOr<kernels::Reduction> reduction = kernels::Reduction::Create(spec);
  if (!reduction.ok()) return reduction.status();
  const std::uint64_t element_bytes = reduction->element_bytes();
  const std::uint64_t largest = std::min(kLargestBytes, slot.Capacity(*reduction) * element_bytes);
  const std::vector<std::byte> data(largest);
  for (std::uint64_t bytes = kSmallestBytes; bytes <= largest; bytes *= 2) {
    const std::span<const std::byte> array = std::span(data).first(bytes);
    const absl::StatusOr<absl::Duration> host = BestTime(clock, [&] {
      kernels::ReduceOnHost(*reduction, 0, array);
      return absl::OkStatus();
    });
    const absl::StatusOr<absl::Duration> device = BestTime(clock, [&] {
      std::copy(array.begin(), array.end(), slot.staging().begin());
      absl::Status status = slot.Start(*reduction, 0, bytes / element_bytes);
      return status.ok() ? slot.Wait().status() : status;
    });
    if (!device.ok()) return device.status();
    if (*device < *host) return bytes;
  }
  return largest;
}

}  // namespace warpfold::server
