// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/gpu_driver.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <array>

#include "absl/cleanup/cleanup.h"
#include "client/python/native/python_lock.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

constexpr int kAttributeContext = 1;
constexpr int kAttributeBufferId = 7;
constexpr int kAttributeDeviceOrdinal = 9;

template <typename Function>
void Find(const nb::callable& address_of, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(nb::cast<std::uintptr_t>(address_of(name)));
}

}  // namespace

GpuDriver::GpuDriver(const nb::callable& address_of) {
  Find(address_of, "cuPointerGetAttribute", get_attribute_);
  Find(address_of, "cuDevicePrimaryCtxRetain", retain_primary_);
  Find(address_of, "cuDevicePrimaryCtxRelease_v2", release_primary_);
  Find(address_of, "cuCtxPushCurrent_v2", push_current_);
  Find(address_of, "cuCtxPopCurrent_v2", pop_current_);
  Find(address_of, "cuCtxSynchronize", synchronize_);
  Find(address_of, "cuMemGetAddressRange_v2", get_range_);
  Find(address_of, "cuIpcGetMemHandle", get_handle_);
  Find(address_of, "cuCtxGetDevice", get_device_);
  Find(address_of, "cuDeviceGetPCIBusId", get_bus_id_);
  Find(address_of, "cuMemcpyHtoD_v2", copy_);
}

// The attributes are queried one after the other: cuPointerGetAttributes, which returns several, needs a
// context that is current on this thread, and a thread that only calls Warpfold has none.
std::optional<GpuDriver::Owner> GpuDriver::OwnerOf(std::uint64_t address) const {
  Owner owner;
  if (get_attribute_(&owner.context, kAttributeContext, address) == 0 && owner.context != nullptr) {
    if (get_attribute_(&owner.number, kAttributeBufferId, address) != 0) return {};
    return owner;
  }
  owner.context = nullptr;
  if (get_attribute_(&owner.device, kAttributeDeviceOrdinal, address) != 0) return {};
  return owner;
}

bool GpuDriver::WithContextOf(const Owner& owner, const std::function<int()>& action) const {
  void* context = owner.context;
  const bool is_primary = context == nullptr;
  if (is_primary && retain_primary_(&context, owner.device) != 0) return false;
  bool done = false;
  if (push_current_(context) == 0) {
    done = action() == 0;
    pop_current_(&context);
  }
  if (is_primary) release_primary_(owner.device);
  return done;
}

std::optional<std::uint64_t> GpuDriver::Settle(std::uint64_t address) const {
  const std::optional<Owner> owner = OwnerOf(address);
  if (!owner.has_value() || !WithContextOf(*owner, synchronize_)) return {};
  return owner->number;
}

bool GpuDriver::Write(std::uint64_t address, std::uintptr_t source, std::size_t bytes) const {
  const std::optional<Owner> owner = OwnerOf(address);
  // The copy may return before the last bytes are there, and streams that do not wait for the default one
  // would not wait for it.
  const auto copy = [&] {
    const int error = copy_(address, reinterpret_cast<const void*>(source), bytes);
    return error != 0 ? error : synchronize_();
  };
  return owner.has_value() && WithContextOf(*owner, copy);
}

std::optional<GpuDriver::Opened> GpuDriver::HandleOf(std::uint64_t address) const {
  const std::optional<Owner> owner = OwnerOf(address);
  if (!owner.has_value() || owner->context == nullptr || push_current_(owner->context) != 0) return {};
  const absl::Cleanup pop = [this] {
    void* popped = nullptr;
    pop_current_(&popped);
  };
  std::uint64_t begin = 0;
  std::size_t bytes = 0;
  Handle handle;
  if (get_range_(&begin, &bytes, address) != 0 || get_handle_(&handle, begin) != 0) return {};
  int device = 0;
  std::array<char, 32> bus_id = {};
  if (get_device_(&device) != 0 || get_bus_id_(bus_id.data(), bus_id.size(), device) != 0) return {};
  return Opened{begin, bytes, nb::bytes(handle.bytes, sizeof(handle.bytes)), bus_id.data()};
}

void BindGpuDriver(nb::module_& module) {
  nb::class_<GpuDriver>(module, "GpuDriver")
      .def(nb::init<const nb::callable&>())
      .def("settle", &GpuDriver::Settle, nb::call_guard<Unlocked>())
      .def("handle_of", &GpuDriver::HandleOf)
      .def("write", &GpuDriver::Write, nb::call_guard<Unlocked>());
}

}  // namespace warpfold::python
