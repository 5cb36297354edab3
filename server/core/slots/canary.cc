// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/canary.h"

#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kLeaves = 2;

kernels::ReductionPlan SumOfDoubles() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kFloat64;
  return kernels::ReductionPlan::Create(spec).value();
}

// Numbers none of which can be left out, mistaken for another, or added in a different order unnoticed.
std::vector<double> Numbers(std::uint64_t count) {
  std::vector<double> numbers(count);
  for (std::uint64_t i = 0; i < count; ++i) numbers[i] = 1.0 / static_cast<double>(i + 1);
  return numbers;
}

std::uint64_t BitsOf(const kernels::PartialState& state) {
  const absl::StatusOr<kernels::OperatorValue> value = state.Finish(0);
  return value.ok() ? std::bit_cast<std::uint64_t>(value->entries.front().double_value) : 0;
}

}  // namespace

Canary::Canary(SlotPool& pool, DeviceHealth& device, absl::Time now)
    : pool_(pool),
      device_(device),
      reduction_(SumOfDoubles()),
      array_(Numbers(kLeaves * reduction_.leaf_elements())),
      expected_bits_(BitsOf(kernels::ReduceOnHost(reduction_, 0, std::as_bytes(std::span(array_))))),
      next_(now + kInterval) {}

void Canary::OnTick(absl::Time now) {
  if (retired_ || pool_.size() == 0) return;
  const bool is_used = pool_.free() < pool_.size() || pool_.waiting() > 0;
  const bool is_due = now >= next_;
  if (is_used || is_due) next_ = now + kInterval;
  if (!is_due || is_used) return;
  for (int device = 0; device < pool_.devices(); ++device) Start(device);
}

void Canary::Retire() {
  retired_ = true;
  next_ = absl::InfiniteFuture();
}

void Canary::Start(int device) {
  kernels::Slot* const slot = pool_.Take(*this, device);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(array_));
  std::memcpy(slot->staging().data(), bytes.data(), bytes.size());
  absl::Status started;
  {
    const DeviceCalls::Scope call(pool_.device_calls());
    started = slot->Start(reduction_, 0, array_.size());
  }
  started =
      pool_.Started(*this, slot, std::move(started), {.memory = nullptr, .poll = {}, .bytes = bytes.size()});
  if (!started.ok()) return Judge(started);
  if (const auto result = pool_.CollectAtOnce(slot); result.has_value()) Judge(*result);
}

void Canary::OnSlotFinished(kernels::Slot*, absl::StatusOr<kernels::SlotResult> result) { Judge(result); }

void Canary::Judge(const absl::StatusOr<kernels::SlotResult>& result) {
  if (!result.ok()) {
    return device_.Lose(
        absl::StrCat("the device failed in a trial while it was idle: ", result.status().message()));
  }
  // States are not compared byte by byte: in memory they have gaps, which may contain anything.
  if (BitsOf(*result->state) != expected_bits_) {
    device_.Lose("the device gave a wrong result in a trial while it was idle");
  }
}

}  // namespace warpfold::server
