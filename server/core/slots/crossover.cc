// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/crossover.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/operators/table.h"
#include "server/core/slots/device_health.h"
#include "server/core/slots/warm_up.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMeasuredBytes = 16 << 10;
constexpr int kRepetitions = 3;
// These shapes are measured: scalars and, for operators over whole matrices, rows of two, square matrices of
// the dimensions for which the host has its own loop, and 16 x 16 for all others.
constexpr kernels::ElementShape kScalars[] = {{}};
constexpr kernels::ElementShape kMatrices[] = {{1, 2}, {1, 1}, {2, 2}, {3, 3}, {4, 4},
                                               {5, 5}, {6, 6}, {7, 7}, {8, 8}, {16, 16}};

// Small numbers of all types: no NaN, no overflow that ends a loop early.
std::vector<std::byte> MeasuredNumbers(std::uint64_t bytes) {
  std::vector<std::byte> numbers(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) numbers[i] = static_cast<std::byte>(i * 37 % 61);
  return numbers;
}

}  // namespace

absl::StatusOr<Crossovers> Crossovers::Measure(kernels::Backend& backend, const Clock& clock) {
  Crossovers crossovers;
  // simt is slower than the CPU at any size, but anybody who asks for it wants its kernels to run.
  if (backend.name() == "cpu" || backend.name() == "simt" || backend.slots().empty()) return crossovers;
  WarmUp& warm_up = crossovers.warm_up_;
  int device = 0;
  for (const auto& slot : backend.slots()) {
    if (slot->device() != device) continue;
    ++device;
    const absl::Time start = clock();
    if (absl::Status status = crossovers.MeasureAll(*slot, clock); !status.ok()) return status;
    const absl::Time measured = clock();
    warm_up.took += measured - start;
    if (absl::Status status = WarmUpOtherCalls(*slot, backend.opens_pieces(), clock, warm_up.other_calls);
        !status.ok()) {
      return status;
    }
    warm_up.others_took += clock() - measured;
  }
  return crossovers;
}

Crossovers::Key Crossovers::KeyOf(const kernels::ReductionPlan& reduction, std::size_t op) {
  const kernels::ReductionSpec& spec = reduction.spec();
  const bool is_whole = reduction.operators()[op].entry->whole_matrix;
  return {spec.operators[op], spec.element_type, is_whole ? kernels::WholeIndex(spec.shape) : 0,
          spec.modulus.has_value()};
}

absl::Status Crossovers::MeasureAll(kernels::Slot& slot, const Clock& clock) {
  const auto names = kernels::OperatorNames();
  for (std::size_t op = 0; op < names.size(); ++op) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      kernels::ReductionSpec spec;
      spec.operators = {std::string(names[op])};
      spec.element_type = ElementTypeAt(t);
      const bool takes_scalars = kernels::OperatorTakesScalars(static_cast<int>(op), spec.element_type);
      std::span<const kernels::ElementShape> shapes = kScalars;
      if (!takes_scalars) shapes = kMatrices;
      for (const kernels::ElementShape shape : shapes) {
        spec.shape = shape;
        spec.modulus.reset();
        if (absl::Status status = MeasureIfAny(spec, slot, clock); !status.ok()) return status;
        spec.modulus = kAnyModulus;
        if (absl::Status status = MeasureIfAny(spec, slot, clock); !status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Crossovers::MeasureIfAny(const kernels::ReductionSpec& spec, kernels::Slot& slot,
                                      const Clock& clock) {
  const absl::StatusOr<kernels::ReductionPlan> reduction = kernels::ReductionPlan::Create(spec);
  if (!reduction.ok()) return absl::OkStatus();  // the operator takes no such elements, or no modulus
  return MeasureOne(*reduction, slot, clock);
}

absl::Status Crossovers::MeasureOne(const kernels::ReductionPlan& reduction, kernels::Slot& slot,
                                    const Clock& clock) {
  const std::uint64_t leaves = std::max<std::uint64_t>(1, kMeasuredBytes / reduction.leaf_bytes());
  const std::uint64_t elements = std::min(leaves * reduction.leaf_elements(), slot.Capacity(reduction));
  const std::vector<std::byte> array = MeasuredNumbers(elements * reduction.element_bytes());
  absl::Duration host = absl::InfiniteDuration();
  absl::Duration device = absl::InfiniteDuration();
  absl::Duration first;
  for (int i = 0; i < kRepetitions; ++i) {
    absl::Time start = clock();
    kernels::ReduceOnHost(reduction, 0, array);
    host = std::min(host, clock() - start);
    start = clock();
    std::memcpy(slot.staging().data(), array.data(), array.size());
    if (absl::Status status = slot.Start(reduction, 0, elements); !status.ok()) return status;
    if (absl::Status status = AwaitSlot(slot, array.size(), clock); !status.ok()) return status;
    if (absl::Status status = slot.Wait().status(); !status.ok()) return status;
    device = std::min(device, clock() - start);
    if (i == 0) first = clock() - start;
  }
  if (slot.device() == 0) ++warm_up_.operators;
  if (first - device > warm_up_.slowest) {
    warm_up_.slowest = first - device;
    warm_up_.slowest_operator =
        absl::StrCat(reduction.spec().operators[0], " ", ElementTypeName(reduction.spec().element_type));
  }
  // A host of infinite speed should still leave large arrays to the device.
  const double host_ns = std::max(absl::ToDoubleNanoseconds(host), 1.0);
  const double bytes = absl::ToDoubleNanoseconds(device) / host_ns * static_cast<double>(array.size());
  bytes_.try_emplace(KeyOf(reduction, 0), static_cast<std::uint64_t>(std::clamp(bytes, double{kSmallestBytes},
                                                                                double{kLargestBytes})));
  return absl::OkStatus();
}

std::uint64_t Crossovers::BytesFor(const kernels::ReductionPlan& reduction) const {
  // On the host the operators run one after the other; on the device they overlap with the copy.
  double times = 0;
  for (std::size_t op = 0; op < reduction.operators().size(); ++op) {
    const auto found = bytes_.find(KeyOf(reduction, op));
    if (found == bytes_.end()) return 0;
    times += 1 / static_cast<double>(found->second);
  }
  return static_cast<std::uint64_t>(1 / times);
}

}  // namespace warpfold::server
