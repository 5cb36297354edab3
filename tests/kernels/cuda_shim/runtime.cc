// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA runtime, in the order of the header.
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "tests/kernels/cuda_shim/include/cuda.h"
#include "tests/kernels/cuda_shim/include/cuda_runtime.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {
namespace {

using Kind = Shim::Kind;

constexpr int kMultiprocessors = 4;
constexpr std::size_t kFreeBytes = std::size_t{1} << 34;

Shim& Gpus() { return Shim::Get(); }
bool IsGpu(int device) { return device >= 0 && device < kGpus; }

// A function of the driver itself, under the name by which the backend asks for it.
CUresult AddressRange(CUdeviceptr* start, std::size_t* bytes, CUdeviceptr address) {
  return static_cast<CUresult>(Gpus().Call("cuMemGetAddressRange", {}, [&] {
    const auto* const base = reinterpret_cast<const void*>(address);
    const Shim::Resource* const memory = Gpus().Find(Kind::kMapping, base);
    if (memory == nullptr) return cudaErrorInvalidValue;
    *start = address;
    *bytes = memory->size;
    return cudaSuccess;
  }));
}

}  // namespace

const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheShim"; }

cudaError_t cudaGetLastError(Where where) {
  return Gpus().Call(__func__, where, [] { return Gpus().TakeLastError(); });
}
cudaError_t cudaPeekAtLastError(Where where) {
  return Gpus().Call(__func__, where, [] { return Gpus().last_error(); });
}

cudaError_t cudaDriverGetVersion(int* version, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *version = 13000;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceCount(int* count, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *count = kGpus;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *device = Gpus().current();
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (!IsGpu(device)) return cudaErrorInvalidDevice;
    Gpus().current() = device;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (!IsGpu(device)) return cudaErrorInvalidDevice;
    std::snprintf(properties->name, sizeof(properties->name), "a GPU that is none");
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (!IsGpu(device)) return cudaErrorInvalidDevice;
    *value = attribute == cudaDevAttrMultiProcessorCount ? kMultiprocessors : 1;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (!IsGpu(device)) return cudaErrorInvalidDevice;
    std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device);
    return cudaSuccess;
  });
}

cudaError_t CudaFree::operator()(void* memory, Where where) const {
  return Gpus().Call("cudaFree", where, [&] {
    Gpus().DrainAll();
    return Gpus().GiveBack(Kind::kDeviceMemory, memory);
  });
}
cudaError_t CudaHostUnregister::operator()(void* memory, Where where) const {
  return Gpus().Call("cudaHostUnregister", where,
                     [&] { return Gpus().GiveBack(Kind::kRegistration, memory); });
}
cudaError_t CudaIpcCloseMemHandle::operator()(void* memory, Where where) const {
  return Gpus().Call("cudaIpcCloseMemHandle", where, [&] { return Gpus().GiveBack(Kind::kMapping, memory); });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* all_bytes, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *free_bytes = *all_bytes = kFreeBytes;
    return cudaSuccess;
  });
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *memory = Gpus().Allocate(Kind::kDeviceMemory, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *memory = Gpus().Allocate(Kind::kHostMemory, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaHostGetDevicePointer(void** of_device, void* of_host, unsigned, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (Gpus().Find(Kind::kHostMemory, of_host) == nullptr) return cudaErrorInvalidValue;
    *of_device = of_host;
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* memory, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Gpus().DrainAll();
    return Gpus().GiveBack(Kind::kHostMemory, memory);
  });
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Gpus().Keep(Kind::kRegistration, memory, Gpus().current(), bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory, Where where) {
  return Gpus().Call(__func__, where, [&] {
    const Shim::Resource* const mapping = Gpus().Find(Kind::kMapping, memory);
    if (mapping == nullptr) return cudaErrorInvalidValue;
    *attributes = {.type = cudaMemoryTypeDevice, .device = mapping->device};
    return cudaSuccess;
  });
}
// A handle of another GPU's memory is opened, too: a caller that asks for the memory's attributes finds out.
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Shim::Resource* const exported = Gpus().Exported(handle);
    if (exported == nullptr) return cudaErrorInvalidValue;
    *memory = exported->bytes.get();
    Gpus().Keep(Kind::kMapping, *memory, exported->device, exported->size);
    return cudaSuccess;
  });
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned,
                                             cudaDriverEntryPointQueryResult* result, Where where) {
  return Gpus().Call(__func__, where, [&] {
    const bool is_known = std::string_view(symbol) == "cuMemGetAddressRange";
    *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    *function = is_known ? reinterpret_cast<void*>(&AddressRange) : nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *stream = Gpus().MakeStream();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (Stream* const known = Gpus().Known(stream); known != nullptr) Gpus().Drain(*known);
    return Gpus().GiveBack(Kind::kStream, stream);
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Stream* const known = Gpus().Known(stream);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    Gpus().Drain(*known);
    return cudaSuccess;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Stream* const known = Gpus().Known(stream);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    known->work.push_back([function, argument] { function(argument); });
    return cudaSuccess;
  });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Gpus().Known(cudaStreamLegacy)->work.push_back([=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Stream* const known = Gpus().Known(stream);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    if (!Gpus().MayCopy(from, bytes) || !Gpus().MayCopy(to, bytes)) return cudaErrorInvalidValue;
    known->work.push_back([=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event, Where where) {
  return Gpus().Call(__func__, where, [&] {
    *event = Gpus().MakeEvent();
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event, Where where) {
  return Gpus().Call(__func__, where, [&] { return Gpus().GiveBack(Kind::kEvent, event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream, Where where) {
  return Gpus().Call(__func__, where, [&] {
    Stream* const known = Gpus().Known(stream);
    if (known == nullptr || known->device != Gpus().current()) return cudaErrorInvalidResourceHandle;
    event->stream = known;
    const std::uint64_t number = ++event->recorded;
    known->work.push_back([event, number] { event->reached = number; });
    return cudaSuccess;
  });
}
// Each query lets the stream do one thing more, so that querying comes to an end.
cudaError_t cudaEventQuery(cudaEvent_t event, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (event->reached == event->recorded) return cudaSuccess;
    const auto work = std::move(event->stream->work.front());
    event->stream->work.pop_front();
    work();
    return cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (event->reached != event->recorded) Gpus().Drain(*event->stream);
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end, Where where) {
  return Gpus().Call(__func__, where, [&] {
    if (begin->recorded == 0 || end->recorded == 0) return cudaErrorInvalidResourceHandle;
    if (begin->reached != begin->recorded || end->reached != end->recorded) return cudaErrorNotReady;
    *ms = 1;
    return cudaSuccess;
  });
}

}  // namespace warpfold::kernels::shim
