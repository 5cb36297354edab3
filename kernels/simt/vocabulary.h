// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The words of CUDA C++ that kernels use, for the host's compiler: with them the same source runs on a
// simt::Device. Their meanings are those of the CUDA C++ Programming Guide.
//
// No kernel that runs here uses DynamicSharedMemory, atomicAdd, __threadfence and the __reduce_... words.
// They are here so that readers can run a published reduction next to ours: the ones that docs/textbook.md
// lists use them. No published reduction uses __reduce_max_sync; our own kernels call it on a GPU (warp.cuh).
// executor_test.cc tests them all.
//
// Sources that include this are compiled with -Dcuda=simt: kernels, whose namespace is kernels::cuda, are
// then in kernels::simt, alongside what nvcc compiles from them, and not instead of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/simt/device.h"
#include "kernels/simt/runtime.h"

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
// A variable of the block: WARPFOLD_SHARED(unsigned, drawn, [2]) is `unsigned drawn[2]`.
#define WARPFOLD_SHARED(Type, name, ...) \
  struct Shared_##name {};               \
  auto& name = ::warpfold::kernels::simt::SharedVariable<Type __VA_ARGS__, Shared_##name>()

namespace warpfold::kernels::simt {

struct Index3 {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};
// These are always those of the fiber that runs.
inline constinit thread_local Index3 threadIdx = {};
inline constinit thread_local Index3 blockIdx = {};
inline constinit thread_local Index3 blockDim = {};
inline constinit thread_local Index3 gridDim = {};

template <class T, class Key>
T& SharedVariable() {
  static const char key = 0;
  return *reinterpret_cast<T*>(SharedMemory(&key, sizeof(T)));
}
// What CUDA declares as `extern __shared__ T name[]`.
template <class T>
T* DynamicSharedMemory() {
  return reinterpret_cast<T*>(SharedMemory(nullptr, 0));
}

inline void __syncthreads(Where where = Where::current()) { SyncBlock(where); }
inline void __threadfence(Where where = Where::current()) { Fence(where); }
inline void __syncwarp(unsigned mask = 0xffffffffu, Where where = Where::current()) {
  MeetWarp(WarpCall::kSync, mask, 0, 0, where);
}

inline int LaneOfThread() { return static_cast<int>(threadIdx.x % 32); }

// The value of lane `source`, which takes part.
template <class T>
T ShuffleValue(unsigned mask, T value, int source, const Where& where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = MeetWarp(WarpCall::kShuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, Where where = Where::current()) {
  const int first = LaneOfThread() & ~(width - 1);
  return ShuffleValue(mask, value, first + (source & (width - 1)), where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, Where where = Where::current()) {
  const int source = LaneOfThread() + static_cast<int>(delta);
  return ShuffleValue(mask, value, source > (LaneOfThread() | (width - 1)) ? LaneOfThread() : source, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, Where where = Where::current()) {
  const int source = LaneOfThread() ^ lane_mask;
  return ShuffleValue(mask, value, source > (LaneOfThread() | (width - 1)) ? LaneOfThread() : source, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, Where where = Where::current()) {
  return static_cast<unsigned>(MeetWarp(WarpCall::kBallot, mask, predicate != 0, 0, where));
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value, Where where = Where::current()) {
  return static_cast<unsigned>(MeetWarp(WarpCall::kAdd, mask, value, 0, where));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, Where where = Where::current()) {
  return static_cast<unsigned>(MeetWarp(WarpCall::kMax, mask, value, 0, where));
}

inline unsigned NextTicket(unsigned drawn, unsigned last) { return drawn >= last ? 0 : drawn + 1; }
inline unsigned atomicInc(unsigned* address, unsigned last, Where where = Where::current()) {
  return ChangeAtomically(
      address, Order::kRelaxed, [last](unsigned drawn) { return NextTicket(drawn, last); }, where);
}
inline unsigned atomicAdd(unsigned* address, unsigned value, Where where = Where::current()) {
  return ChangeAtomically(
      address, Order::kRelaxed, [value](unsigned old) { return old + value; }, where);
}
// PTX: atom.acq_rel.gpu.global.inc.u32.
inline unsigned AtomicIncAcquireRelease(unsigned* address, unsigned last, Where where = Where::current()) {
  return ChangeAtomically(
      address, Order::kAcquireRelease, [last](unsigned drawn) { return NextTicket(drawn, last); }, where);
}

namespace cooperative_groups {
struct Grid {
  void sync(Where where = Where::current()) const { SyncGrid(where); }
};
inline Grid this_grid() { return {}; }
}  // namespace cooperative_groups

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class A, class B>
constexpr auto min(A a, B b) {
  using Common = std::common_type_t<A, B>;
  return std::min(static_cast<Common>(a), static_cast<Common>(b));
}
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline int __double2hiint(double x) {
  return static_cast<int>(static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(x) >> 32));
}

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

// For example "LastBlockKernel", for a kernel that is a template argument.
template <auto kKernel>
std::string KernelName() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("kKernel = ") + std::string_view("kKernel = ").size());
  name = name.substr(0, name.find_first_of("<;]"));
  const std::size_t scope = name.rfind(':');
  return std::string(scope == std::string_view::npos ? name : name.substr(scope + 1));
}

template <auto kKernel, class... Arguments>
cudaError_t LaunchKernel(const LaunchShape& shape, cudaStream_t device, const Arguments&... arguments) {
  const LaunchSpec spec = {KernelName<kKernel>(), shape.blocks, shape.threads, shape.shared_bytes};
  return device->Launch(spec, [&] { kKernel(arguments...); }) ? cudaSuccess : cudaErrorLaunchFailure;
}
template <auto kKernel, class... Parameters>
cudaError_t LaunchCooperatively(const LaunchShape& shape, cudaStream_t device, Parameters... parameters) {
  const LaunchSpec spec = {KernelName<kKernel>(), shape.blocks, shape.threads, shape.shared_bytes, true};
  return device->Launch(spec, [&] { kKernel(parameters...); }) ? cudaSuccess : cudaErrorLaunchFailure;
}
template <auto kKernel>
cudaError_t ResidentBlocks(int, int* blocks) {
  *blocks = 2;
  return cudaSuccess;
}

// The compiler may take for granted that this holds.
inline void Assume(bool holds) {
  if (!holds) __builtin_unreachable();
}

}  // namespace warpfold::kernels::simt
