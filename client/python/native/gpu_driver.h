// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The queries to NVIDIA's driver about an array before each call that lets the server read or write it on the
// GPU (CUDA Driver API 13.0, sections 6.8, 6.11 and 6.13). They are in C++ because the array waits for them:
// through ctypes the same queries take ten times as long.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>

namespace warpfold::python {

// Functions of the driver's library, which the process that has such an array has loaded. Threads: any.
class GpuDriver {
 public:
  // `address_of` returns the address of the function with a given name. Its exception is passed on if there
  // is none.
  explicit GpuDriver(const nanobind::callable& address_of);

  // Waits until the GPU has finished this process's work in the context that has the memory at `address`, or
  // in CUDA's runtime if none has it: the server knows nothing of its streams. Returns the number of the
  // allocation that it is in, which no other allocation of this process ever has, not even one that gets the
  // same address later; 0 if no context has the memory. Nothing for memory that is not a GPU's, and if the
  // work has failed. Call this without Python's lock.
  std::optional<std::uint64_t> Settle(std::uint64_t address) const;

  // Where the allocation that contains `address` begins, its size, a CUipcMemHandle of it, and the PCI bus id
  // of its GPU. Nothing for memory that cannot be shared in this way: managed, mapped, or from a pool.
  using Opened = std::tuple<std::uint64_t, std::size_t, nanobind::bytes, std::string>;
  std::optional<Opened> HandleOf(std::uint64_t address) const;

  // Copies `bytes` from `source`, in the host's memory, to the GPU's memory at `address`. False if the driver
  // refuses. Call this without Python's lock.
  bool Write(std::uint64_t address, std::uintptr_t source, std::size_t bytes) const;

 private:
  // A CUipcMemHandle.
  struct Handle {
    char bytes[64];
  };
  // What the memory at an address belongs to.
  struct Owner {
    void* context = nullptr;   // null for memory from a pool, or mapped
    std::uint64_t number = 0;  // 0 if there is no context
    int device = 0;            // if there is no context
  };
  std::optional<Owner> OwnerOf(std::uint64_t address) const;
  // Whether `action` returns 0 while the owner's context, or CUDA's runtime if it has none, is this thread's.
  bool WithContextOf(const Owner& owner, const std::function<int()>& action) const;

  // All return 0 for success.
  int (*get_attribute_)(void* answer, int attribute, std::uint64_t address);
  int (*retain_primary_)(void** context, int device);
  int (*release_primary_)(int device);
  int (*push_current_)(void* context);
  int (*pop_current_)(void** context);
  int (*synchronize_)();
  int (*get_range_)(std::uint64_t* begin, std::size_t* bytes, std::uint64_t address);
  int (*get_handle_)(Handle* handle, std::uint64_t address);
  int (*get_device_)(int* device);
  int (*get_bus_id_)(char* id, int bytes, int device);
  int (*copy_)(std::uint64_t to, const void* from, std::size_t bytes);
};

void BindGpuDriver(nanobind::module_& module);

}  // namespace warpfold::python
