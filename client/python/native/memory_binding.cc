// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/memory_binding.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "client/python/native/call.h"
#include "client/shared_memory.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

// Memory that is given back with the last Python object that knows it. A process that was forked has the same
// socket, and must not end what its parent registered: there nothing is given back.
template <typename Memory>
class Held {
 public:
  explicit Held(Memory memory) : memory_(std::make_unique<Memory>(std::move(memory))), process_(getpid()) {}
  Held(Held&&) noexcept = default;
  ~Held() {
    if (memory_ == nullptr) return;
    if (getpid() != process_) {
      static_cast<void>(memory_.release());
      return;
    }
    // The server is told, and answers.
    const nb::gil_scoped_release unlock;
    memory_.reset();
  }

  const Memory& operator*() const { return *memory_; }
  nb::bytes token() const { return nb::bytes(memory_->token().data(), memory_->token().size()); }

 private:
  std::unique_ptr<Memory> memory_;
  pid_t process_;
};

using Shared = Held<SharedMemory>;
using Registered = Held<RegisteredMemory>;

MemoryConnection Connect(const std::string& path) {
  Watch watch{nb::none()};
  return Call(watch, [&] { return MemoryConnection::Open(path); });
}

Shared Allocate(const MemoryConnection& connection, std::uint64_t byte_count) {
  Watch watch{nb::none()};
  return Shared(Call(watch, [&] { return connection.Allocate(byte_count); }));
}

Registered RegisterGpu(const MemoryConnection& connection, const nb::bytes& handle, std::uint64_t byte_offset,
                       std::uint64_t byte_count) {
  Watch watch{nb::none()};
  const std::span bytes(reinterpret_cast<const std::byte*>(handle.c_str()), handle.size());
  return Registered(Call(watch, [&] { return connection.RegisterGpu(bytes, byte_offset, byte_count); }));
}

// Keeps its memory alive, as do NumPy's views of it.
nb::ndarray<nb::numpy, std::uint8_t> BytesOf(const nb::object& self) {
  const std::span<std::byte> data = (*nb::cast<const Shared&>(self)).data();
  return {data.data(), {data.size()}, self};
}

}  // namespace

void BindMemory(nb::module_& module) {
  nb::class_<Shared>(module, "SharedMemory", nb::is_weak_referenceable())
      .def_prop_ro("token", &Shared::token)
      .def_prop_ro(
          "address",
          [](const Shared& shared) { return reinterpret_cast<std::uintptr_t>((*shared).data().data()); })
      .def_prop_ro("nbytes", [](const Shared& shared) { return (*shared).data().size(); })
      .def("bytes", &BytesOf, nb::rv_policy::reference);
  nb::class_<Registered>(module, "RegisteredMemory", nb::is_weak_referenceable())
      .def_prop_ro("token", &Registered::token);
  nb::class_<MemoryConnection>(module, "MemoryConnection")
      .def_static("open", &Connect)
      .def("allocate", &Allocate)
      .def("register_gpu", &RegisterGpu);
}

}  // namespace warpfold::python
