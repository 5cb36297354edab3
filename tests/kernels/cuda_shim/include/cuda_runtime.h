// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA runtime's interface that the host code of kernels/cuda uses, for machines without
// CUDA. The sources of the backend are compiled with this header instead of NVIDIA's, and with `cuda` defined
// as `shim`, so that the functions that they call are found in their own namespace. shim.h describes what is
// behind it.
//
// Every function has one parameter more than CUDA's: the place in the source that calls it.
#pragma once

#include <cstddef>
#include <source_location>

#define CUDART_CB
#define CUDART_VERSION 13000

namespace warpfold::kernels::shim {

using Where = std::source_location;

// Any number can be an error, as with CUDA: a driver may be newer than the header.
enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchFailure = 719,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999,
};
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError(Where where = Where::current());
cudaError_t cudaPeekAtLastError(Where where = Where::current());

struct cudaDeviceProp {
  char name[256];
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrCanUseHostPointerForRegisteredMem };
cudaError_t cudaDriverGetVersion(int* version, Where where = Where::current());
cudaError_t cudaGetDeviceCount(int* count, Where where = Where::current());
cudaError_t cudaGetDevice(int* device, Where where = Where::current());
cudaError_t cudaSetDevice(int device, Where where = Where::current());
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device, Where where = Where::current());
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device,
                                   Where where = Where::current());
cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device, Where where = Where::current());

// The functions that give memory back are objects: the backend takes them as template arguments, and a
// pointer to a function would not know its default arguments.
struct CudaFree {
  cudaError_t operator()(void* memory, Where where = Where::current()) const;
};
struct CudaHostUnregister {
  cudaError_t operator()(void* memory, Where where = Where::current()) const;
};
struct CudaIpcCloseMemHandle {
  cudaError_t operator()(void* memory, Where where = Where::current()) const;
};
inline constexpr CudaFree cudaFree;
inline constexpr CudaHostUnregister cudaHostUnregister;
inline constexpr CudaIpcCloseMemHandle cudaIpcCloseMemHandle;

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* all_bytes, Where where = Where::current());
cudaError_t cudaMalloc(void** memory, std::size_t bytes, Where where = Where::current());

inline constexpr unsigned cudaHostAllocDefault = 0;
inline constexpr unsigned cudaHostAllocMapped = 2;
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags, Where where = Where::current());
cudaError_t cudaHostGetDevicePointer(void** of_device, void* of_host, unsigned flags,
                                     Where where = Where::current());
cudaError_t cudaFreeHost(void* memory, Where where = Where::current());

inline constexpr unsigned cudaHostRegisterPortable = 1;
inline constexpr unsigned cudaHostRegisterMapped = 2;
inline constexpr unsigned cudaHostRegisterReadOnly = 8;
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags, Where where = Where::current());

enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory,
                                     Where where = Where::current());

struct cudaIpcMemHandle_t {
  char reserved[64];
};
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags,
                                 Where where = Where::current());

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
inline constexpr unsigned cudaEnableDefault = 0;
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned flags, cudaDriverEntryPointQueryResult* result,
                                             Where where = Where::current());

struct Stream;
using cudaStream_t = Stream*;
inline const cudaStream_t cudaStreamLegacy = reinterpret_cast<cudaStream_t>(1);
inline const cudaStream_t cudaStreamPerThread = reinterpret_cast<cudaStream_t>(2);
inline constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags, Where where = Where::current());
cudaError_t cudaStreamDestroy(cudaStream_t stream, Where where = Where::current());
cudaError_t cudaStreamSynchronize(cudaStream_t stream, Where where = Where::current());
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument,
                               Where where = Where::current());

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes, Where where = Where::current());
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream, Where where = Where::current());

struct Event;
using cudaEvent_t = Event*;
cudaError_t cudaEventCreate(cudaEvent_t* event, Where where = Where::current());
cudaError_t cudaEventDestroy(cudaEvent_t event, Where where = Where::current());
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream, Where where = Where::current());
cudaError_t cudaEventQuery(cudaEvent_t event, Where where = Where::current());
cudaError_t cudaEventSynchronize(cudaEvent_t event, Where where = Where::current());
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end,
                                 Where where = Where::current());

}  // namespace warpfold::kernels::shim
