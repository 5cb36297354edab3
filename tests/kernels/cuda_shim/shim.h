// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Two simulated GPUs behind the functions of include/cuda_runtime.h. Their memory is the host's. They record
// what they have handed out, and they fail on command: tests make any call fail with any error, and see how
// the backend reacts.
//
// Work that is enqueued on a stream is done when somebody waits for it, or one step at a time when somebody
// asks for an event. So code that forgets to wait finds nothing done.
//
// Threads: one.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/memory.h"
#include "tests/kernels/cuda_shim/include/cuda.h"
#include "tests/kernels/cuda_shim/include/cuda_runtime.h"

namespace warpfold::kernels::shim {

inline constexpr int kGpus = 2;

// A place in the backend that calls CUDA. Launches have no place, but a name.
struct CallSite {
  std::string function;
  std::string file;  // from the root of the tree
  unsigned line = 0;
  friend auto operator<=>(const CallSite&, const CallSite&) = default;
};
std::string ToString(const CallSite& site);

// Whether the error stays: after it every call returns it, and nothing that was enqueued is done any more.
bool IsSticky(int code);

struct Event {
  cudaStream_t stream = nullptr;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
};

struct Stream {
  int device = 0;
  std::deque<std::function<void()>> work;
};

class Shim {
 public:
  static Shim& Get();

  // Begins a run: everything is forgotten and given back, and GPU 0 is current. In the run, call number n
  // (from 1 on) fails with failures[n]. The functions that only report the last error fail only with sticky
  // errors: they would have to invent any other one.
  void Begin(std::map<std::size_t, int> failures);

  // The calls since Begin, in order.
  const std::vector<CallSite>& calls() const { return calls_; }
  // What the backend has not given back, each with the place where it got it.
  std::vector<std::string> Leaks() const;
  // What no program may do, for example giving back twice.
  const std::vector<std::string>& misuses() const { return misuses_; }
  // Whether streams have work that nobody has waited for.
  bool HasWork() const;

  // Memory of another process on a GPU, until the next Begin, with these bytes.
  ProcessMemory Export(int device, std::span<const std::byte> bytes);

  // What follows is for runtime.cc and kernels.cc.

  // Records the call, and does `action` unless the call is to fail or an earlier error stays.
  cudaError_t Call(const char* function, const Where& where, const std::function<cudaError_t()>& action);
  // Launches what has the name of a kernel and reads `bytes` at `data`. Like a launch with <<<>>>, it returns
  // the last error, even that of another call, and forgets it.
  cudaError_t Launch(const char* kernel, cudaStream_t stream, const void* data, std::size_t bytes,
                     std::function<void()> work);
  // The same for a launch with a function, which returns its own error and leaves the last one as it is.
  cudaError_t LaunchByFunction(const char* kernel, cudaStream_t stream, const void* data, std::size_t bytes,
                               std::function<void()> work);

  enum class Kind { kDeviceMemory, kHostMemory, kRegistration, kMapping, kStream, kEvent };
  struct Resource {
    Kind kind = Kind::kDeviceMemory;
    CallSite site = {};  // of the call that made it
    int device = 0;
    std::size_t size = 0;
    std::unique_ptr<std::byte[]> bytes = nullptr;
    std::unique_ptr<Stream> stream = nullptr;
    std::unique_ptr<Event> event = nullptr;
  };
  // Memory, of the current GPU or of the host.
  std::byte* Allocate(Kind kind, std::size_t bytes);
  Stream* MakeStream();
  Event* MakeEvent();
  // Records `size` bytes that exist already as a registration or a mapping, under their address.
  void Keep(Kind kind, void* key, int device, std::size_t size);
  // Gives back the resource of this kind that is known by `key`; null is nothing.
  cudaError_t GiveBack(Kind kind, const void* key);
  // The resource of this kind in which the address lies, or null.
  const Resource* Find(Kind kind, const void* address) const;
  // Whether CUDA copies this many bytes from there in one call.
  bool MayCopy(const void* memory, std::size_t bytes) const;
  // How much of a kind there is.
  std::size_t BytesOf(Kind kind) const;
  // Memory of another process by its handle, or null.
  Resource* Exported(const cudaIpcMemHandle_t& handle);

  // The stream, even if it is one of those that every GPU has; null if there is no such stream.
  Stream* Known(cudaStream_t stream);
  void Drain(Stream& stream);
  void DrainAll();  // of both GPUs
  // Forgets the last error. An error that stays is the last error again after the next call that does
  // something, and not before (an H200 with CUDA 13.0).
  cudaError_t TakeLastError();
  cudaError_t last_error() const { return last_; }
  int& current() { return current_; }
  void Misuse(const std::string& what);

 private:
  cudaError_t Fail(int code);
  bool MayRead(int device, const void* address, std::size_t bytes) const;
  // The same, and how many of its bytes there are from the address on.
  const Resource* Find(Kind kind, const void* address, std::size_t* left) const;

  std::map<std::size_t, int> failures_;
  std::vector<CallSite> calls_;
  std::vector<std::string> misuses_;
  cudaError_t sticky_ = cudaSuccess;
  cudaError_t last_ = cudaSuccess;
  int current_ = 0;
  Stream legacy_streams_[kGpus];
  Stream thread_streams_[kGpus];
  std::map<const void*, Resource> resources_;
  std::vector<Resource> exported_;  // by the number that is in their handles
};

}  // namespace warpfold::kernels::shim
