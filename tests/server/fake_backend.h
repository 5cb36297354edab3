// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A backend without a device, made of fake slots (fake_slot.h, fake_behaviour.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/server/fake_slot.h"

namespace warpfold::server {

class FakeBackend;

// Memory of the host that pretends, if a test wants it, that only the device can read it.
class FakeMemory : public kernels::Memory {
 public:
  FakeMemory(std::span<const std::byte> bytes, bool host_can_read) : Memory(bytes, host_can_read) {}
  // All but the first bytes of `owned`, on a device.
  FakeMemory(std::unique_ptr<std::vector<std::byte>> owned, std::size_t offset, int device,
             const std::atomic<bool>& fails)
      : Memory(std::span(*owned).subspan(offset), /*host_can_read=*/false, device),
        owned_(std::move(owned)),
        fails_(&fails) {}
  // Has one part after the other to register, and to give back, for as long as the backend says.
  FakeMemory(std::span<const std::byte> bytes, FakeBackend& backend)
      : Memory(bytes, /*host_can_read=*/true), backend_(&backend) {}

  absl::StatusOr<bool> RegisterNext() override;
  bool UnregisterNext() override;
  absl::Status Write(std::uint64_t byte_offset, std::span<const std::byte> bytes) const override {
    if (*fails_) return absl::UnavailableError("the device takes no copy");
    std::ranges::copy(bytes, const_cast<std::byte*>(data()) + byte_offset);
    return absl::OkStatus();
  }

 private:
  FakeBackend* const backend_ = nullptr;
  std::unique_ptr<std::vector<std::byte>> owned_;
  const std::atomic<bool>* const fails_ = nullptr;
};

class FakeBackend : public kernels::Backend {
 public:
  // `slots` is their number on all devices, which have them one device after the other.
  explicit FakeBackend(int slots = 2, std::size_t slot_bytes = std::size_t{64} << 10, int devices = 1)
      : devices_(devices) {
    for (int i = 0; i < slots; ++i) {
      slots_.push_back(std::make_unique<FakeSlot>(behaviour, slot_bytes, i % devices));
    }
  }

  int devices() const override { return devices_; }
  std::string name() const override { return "fake"; }
  std::string device() const override {
    std::string names = "fake:0";
    for (int device = 1; device < devices_; ++device) names += ",fake:" + std::to_string(device);
    return names;
  }
  bool Supports(kernels::Algorithm algorithm) const override {
    return has_algorithms || algorithm == kernels::Algorithm::kAuto;
  }
  std::span<const std::unique_ptr<kernels::Slot>> slots() override { return slots_; }
  std::vector<kernels::DeviceTelemetry> Telemetry() override {
    while (telemetry_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<kernels::DeviceTelemetry> all;
    for (int device = 0; device < devices_; ++device) {
      all.push_back({.device = "fake:" + std::to_string(device),
                     .memory_bytes = 1'000'000,
                     .memory_used_bytes = 250'000,
                     .temperature_celsius = 41.0 + device,
                     .power_watts = 82.5,
                     .corrected_errors = 3,
                     .uncorrected_errors = 0});
    }
    return all;
  }
  absl::Status fault() const override { return faulty ? DeviceLost() : absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<kernels::Memory>> BeginRegister(std::span<const std::byte> bytes,
                                                                 bool /*is_written*/) override {
    if (bytes.size() > kManyBytes) return std::make_unique<FakeMemory>(bytes, *this);
    return std::make_unique<FakeMemory>(bytes, true);
  }
  bool opens_pieces() const override { return true; }
  absl::Status OpenPieces(std::span<const std::byte> bytes) override {
    behaviour.piece_memory = bytes;
    return absl::OkStatus();
  }
  absl::Status CheckOwner(const kernels::ProcessMemory& memory) override {
    if (memory.pci_bus_id.data() != kBusOfAnother) return absl::OkStatus();
    return absl::InvalidArgumentError("not one of the fake devices");
  }
  absl::StatusOr<std::unique_ptr<kernels::Memory>> Open(const kernels::ProcessMemory& memory) override {
    const std::size_t offset = memory.byte_offset % 64;
    return std::make_unique<FakeMemory>(std::make_unique<std::vector<std::byte>>(offset + memory.byte_count),
                                        offset, /*device=*/0, writes_fail);
  }
  absl::StatusOr<std::unique_ptr<kernels::Memory>> Allocate(int device, std::uint64_t bytes) override {
    return std::make_unique<FakeMemory>(std::make_unique<std::vector<std::byte>>(bytes), 0, device,
                                        writes_fail);
  }
  // Allocates this much memory on each device.
  std::vector<std::unique_ptr<kernels::Memory>> AllocateOfEach(std::uint64_t bytes) {
    std::vector<std::unique_ptr<kernels::Memory>> memories;
    for (int device = 0; device < devices_; ++device) memories.push_back(*Allocate(device, bytes));
    return memories;
  }

  // The name of a device that is not one of these.
  static constexpr std::string_view kBusOfAnother = "ffff:ff:1f.7";

  FakeBehaviour behaviour;
  // Registrations of more than kManyBytes have one part after another to register while the first is true,
  // and to give back while the third is.
  static constexpr std::size_t kManyBytes = 512 << 10;
  std::atomic<bool> registration_goes_on = false;
  std::atomic<bool> registration_fails = false;
  std::atomic<bool> release_goes_on = false;
  std::atomic<int> released_parts = 0;
  std::atomic<bool> faulty = false;
  std::atomic<bool> writes_fail = false;  // those of the host to memory of a device
  std::atomic<bool> has_algorithms = true;
  std::atomic<bool> telemetry_hangs = false;

 private:
  const int devices_;
  std::vector<std::unique_ptr<kernels::Slot>> slots_;
};

inline absl::StatusOr<bool> FakeMemory::RegisterNext() {
  if (backend_ == nullptr) return false;
  if (backend_->registration_fails) return absl::UnavailableError("the device is lost");
  return backend_->registration_goes_on.load();
}

inline bool FakeMemory::UnregisterNext() {
  if (backend_ == nullptr || !backend_->release_goes_on) return false;
  ++backend_->released_parts;
  return true;
}

}  // namespace warpfold::server
