// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that a device can access directly, so that it need not be staged: registered (pinned) host memory,
// device memory of another process, or device memory of this process. A Backend creates it (backend.h), and
// its slots reduce it.
//
// Threads: immutable once all of it is registered; freely shared. Must be destroyed before its backend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpfold::kernels {

class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t size() const { return bytes_.size(); }
  // The address as the device sees it. Only the backend may dereference it, unless host_can_read().
  const std::byte* data() const { return bytes_.data(); }
  bool host_can_read() const { return host_can_read_; }
  // The device that holds the bytes; only its slots may be started on them. None if the host holds them: then
  // slots of every device may be started.
  std::optional<int> device() const { return host_can_read_ ? std::nullopt : std::optional(device_); }

  // Registers the next part with the device (Backend::BeginRegister); false once there is none left, or the
  // system has refused one. Only one caller at a time, before anybody else has the memory.
  virtual absl::StatusOr<bool> RegisterNext() { return false; }
  // Whether the device can access all bytes directly. False until every part is registered, and forever if
  // the system has refused one.
  virtual bool is_registered() const { return true; }
  // Has the device forget one of these parts; false once there is none left. The destructor does so with all
  // the remaining ones, which takes long if there are many. Only one caller, when nobody else has the memory.
  virtual bool UnregisterNext() { return false; }

  // Copies the bytes to `byte_offset` of memory that the host cannot read, and waits until they are there.
  // They must fit. UNAVAILABLE (DEVICE_LOST) if the device failed. From any thread.
  virtual absl::Status Write(std::uint64_t /*byte_offset*/, std::span<const std::byte> /*bytes*/) const {
    return absl::UnimplementedError("the host writes to this memory itself");
  }

 protected:
  Memory(std::span<const std::byte> bytes, bool host_can_read, int device = 0)
      : bytes_(bytes), host_can_read_(host_can_read), device_(device) {}

 private:
  const std::span<const std::byte> bytes_;
  const bool host_can_read_;
  const int device_;
};

// Bytes of a Memory.
struct MemoryPart {
  const Memory* memory = nullptr;
  std::uint64_t byte_offset = 0;
  std::uint64_t byte_count = 0;
};

// A part of an allocation that another process made on the device and handed out: a cudaIpcMemHandle_t and
// the place of the part in the allocation.
struct ProcessMemory {
  static constexpr std::size_t kHandleBytes = 64;
  // cudaDeviceGetPCIBusId writes 13, including the terminating zero.
  static constexpr std::size_t kBusIdBytes = 32;
  std::array<std::byte, kHandleBytes> handle = {};
  // The GPU that has the memory, as zero-terminated text; empty if nobody has named it. A handle does not
  // tell: every GPU that reaches the memory of the one that has it can open it.
  std::array<char, kBusIdBytes> pci_bus_id = {};
  std::uint64_t byte_offset = 0;
  std::uint64_t byte_count = 0;
  // Whether its owner wants results there. The handle itself does not restrict what is done to the memory.
  bool writable = false;
};

}  // namespace warpfold::kernels
