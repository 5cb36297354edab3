// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "client/python/native/bindings.h"
#include "client/python/native/call.h"
#include "client/python/native/process_bound.h"
#include "client/shared_memory.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

template <typename Memory>
nb::bytes TokenOf(const Memory& memory) {
  return nb::bytes(memory.token().data(), memory.token().size());
}

MemoryConnection Connect(const std::string& path, const CallOptions& settings, const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  return Call(watch, [&] { return MemoryConnection::Open(path, options); });
}

MemoryAccess AccessFor(bool results) { return results ? MemoryAccess::kReadWrite : MemoryAccess::kRead; }

std::shared_ptr<SharedMemory> Allocate(const MemoryConnection& connection, std::uint64_t byte_count,
                                       bool for_results, const CallOptions& settings,
                                       const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  return MakeProcessBound<SharedMemory>(
      Call(watch, [&] { return connection.Allocate(byte_count, AccessFor(for_results), options); }));
}

std::shared_ptr<RegisteredMemory> RegisterGpu(const MemoryConnection& connection, const nb::bytes& handle,
                                              const std::string& pci_bus_id, std::uint64_t byte_offset,
                                              std::uint64_t byte_count, bool for_results,
                                              const CallOptions& settings, const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  const GpuRange range = {.handle = {reinterpret_cast<const std::byte*>(handle.c_str()), handle.size()},
                          .pci_bus_id = pci_bus_id,
                          .byte_offset = byte_offset,
                          .byte_count = byte_count};
  return MakeProcessBound<RegisteredMemory>(
      Call(watch, [&] { return connection.RegisterGpu(range, AccessFor(for_results), options); }));
}

// This keeps its memory alive, as NumPy's views of it do.
nb::ndarray<nb::numpy, std::uint8_t> BytesOf(const nb::object& self) {
  const std::span<std::byte> data = nb::cast<const SharedMemory&>(self).data();
  return {data.data(), {data.size()}, self};
}

}  // namespace

void BindMemory(nb::module_& module) {
  nb::class_<SharedMemory>(module, "SharedMemory", nb::is_weak_referenceable())
      .def_prop_ro("token", &TokenOf<SharedMemory>)
      .def_prop_ro(
          "address",
          [](const SharedMemory& memory) { return reinterpret_cast<std::uintptr_t>(memory.data().data()); })
      .def_prop_ro("nbytes", [](const SharedMemory& memory) { return memory.data().size(); })
      .def("bytes", &BytesOf, nb::rv_policy::reference);
  nb::class_<RegisteredMemory>(module, "RegisteredMemory", nb::is_weak_referenceable())
      .def_prop_ro("token", &TokenOf<RegisteredMemory>);
  nb::class_<MemoryConnection>(module, "MemoryConnection")
      .def_static("open", &Connect, nb::arg(), nb::arg(), nb::arg().none())
      .def("allocate", &Allocate, nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("register_gpu", &RegisterGpu, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none());
}

}  // namespace warpfold::python
