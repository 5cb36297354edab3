// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda_shim/shim.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpfold::kernels::shim {
namespace {

// "kernels/cuda/cuda_slot.cc": compilers are given names that begin elsewhere.
std::string FromRoot(std::string_view file) {
  const std::size_t root = file.rfind("kernels/cuda/");
  return std::string(root == std::string_view::npos ? file : file.substr(root));
}

bool TellsOfTheLastError(std::string_view function) {
  return function == "cudaGetLastError" || function == "cudaPeekAtLastError";
}

}  // namespace

std::string ToString(const CallSite& site) {
  return site.file.empty() ? site.function : absl::StrCat(site.function, " at ", site.file, ":", site.line);
}

bool IsSticky(int code) { return code == cudaErrorIllegalAddress || code == cudaErrorLaunchFailure; }

Shim& Shim::Get() {
  static auto* const shim = new Shim;
  return *shim;
}

void Shim::Begin(std::map<std::size_t, int> failures) {
  failures_ = std::move(failures);
  calls_.clear();
  misuses_.clear();
  sticky_ = last_ = cudaSuccess;
  current_ = 0;
  for (int device = 0; device < kGpus; ++device) {
    legacy_streams_[device] = {.device = device, .work = {}};
    thread_streams_[device] = {.device = device, .work = {}};
  }
  resources_.clear();
  exported_.clear();
}

std::vector<std::string> Shim::Leaks() const {
  std::vector<std::string> leaks;
  for (const auto& [key, resource] : resources_) leaks.push_back(ToString(resource.site));
  std::ranges::sort(leaks);
  return leaks;
}

bool Shim::HasWork() const {
  const auto has_work = [](const Stream& stream) { return !stream.work.empty(); };
  return std::ranges::any_of(legacy_streams_, has_work) || std::ranges::any_of(thread_streams_, has_work) ||
         std::ranges::any_of(resources_, [&](const auto& entry) {
           return entry.second.stream != nullptr && has_work(*entry.second.stream);
         });
}

ProcessMemory Shim::Export(int device, std::span<const std::byte> bytes) {
  Resource& resource = exported_.emplace_back();
  resource.device = device;
  resource.size = bytes.size();
  resource.bytes = std::make_unique<std::byte[]>(bytes.size());
  std::ranges::copy(bytes, resource.bytes.get());
  ProcessMemory memory = {.byte_offset = 0, .byte_count = bytes.size()};
  memory.handle[0] = static_cast<std::byte>(exported_.size());
  return memory;
}

cudaError_t Shim::Call(const char* function, const Where& where, const std::function<cudaError_t()>& action) {
  const std::string_view file = where.file_name();
  calls_.push_back({function, FromRoot(file), file.empty() ? 0 : where.line()});
  if (sticky_ != cudaSuccess && !TellsOfTheLastError(function)) return last_ = sticky_;
  const auto failure = failures_.find(calls_.size());
  if (failure != failures_.end() && (IsSticky(failure->second) || !TellsOfTheLastError(function))) {
    return Fail(failure->second);
  }
  const cudaError_t error = action();
  return error == cudaSuccess || TellsOfTheLastError(function) ? error : Fail(error);
}

// CUDA does not remember, as an error, that an event has yet to come.
cudaError_t Shim::Fail(int code) {
  const auto error = static_cast<cudaError_t>(code);
  if (error == cudaErrorNotReady) return error;
  last_ = error;
  if (!IsSticky(code)) return error;
  sticky_ = error;
  for (Stream& stream : legacy_streams_) stream.work.clear();
  for (Stream& stream : thread_streams_) stream.work.clear();
  for (auto& [key, resource] : resources_) {
    if (resource.stream != nullptr) resource.stream->work.clear();
  }
  return error;
}

cudaError_t Shim::LaunchByFunction(const char* kernel, cudaStream_t stream, const void* data,
                                   std::size_t bytes, std::function<void()> work) {
  return Call(kernel, {}, [&] {
    Stream* const queue = Known(stream);
    if (queue == nullptr || queue->device != current_) return cudaErrorInvalidResourceHandle;
    if (!MayRead(current_, data, bytes)) Misuse(absl::StrCat(kernel, " reads what its GPU has not"));
    queue->work.push_back(std::move(work));
    return cudaSuccess;
  });
}

cudaError_t Shim::Launch(const char* kernel, cudaStream_t stream, const void* data, std::size_t bytes,
                         std::function<void()> work) {
  const cudaError_t before = last_;
  const cudaError_t error = LaunchByFunction(kernel, stream, data, bytes, std::move(work));
  last_ = cudaSuccess;
  return error == cudaSuccess ? before : error;
}

void Shim::Misuse(const std::string& what) {
  misuses_.push_back(calls_.empty() ? what : absl::StrCat(what, " in ", ToString(calls_.back())));
}

// Memory begins with anything but zeros, as far as programs may notice: filling all of a large one would take
// long.
std::byte* Shim::Allocate(Kind kind, std::size_t bytes) {
  constexpr std::size_t kFilledBytes = 64 << 10;
  Resource resource = {.kind = kind, .site = calls_.back(), .device = current_, .size = bytes};
  resource.bytes = std::unique_ptr<std::byte[]>(new std::byte[bytes]);
  std::memset(resource.bytes.get(), 0xa5, std::min(bytes, kFilledBytes));
  std::byte* const key = resource.bytes.get();
  resources_[key] = std::move(resource);
  return key;
}

Stream* Shim::MakeStream() {
  Resource resource = {.kind = Kind::kStream, .site = calls_.back(), .device = current_};
  resource.stream = std::make_unique<Stream>(Stream{.device = current_, .work = {}});
  Stream* const key = resource.stream.get();
  resources_[key] = std::move(resource);
  return key;
}

Event* Shim::MakeEvent() {
  Resource resource = {.kind = Kind::kEvent, .site = calls_.back(), .device = current_};
  resource.event = std::make_unique<Event>();
  Event* const key = resource.event.get();
  resources_[key] = std::move(resource);
  return key;
}

void Shim::Keep(Kind kind, void* key, int device, std::size_t size) {
  resources_[key] = {.kind = kind, .site = calls_.back(), .device = device, .size = size};
}

cudaError_t Shim::GiveBack(Kind kind, const void* key) {
  if (key == nullptr) return cudaSuccess;
  const auto found = resources_.find(key);
  if (found == resources_.end() || found->second.kind != kind) {
    Misuse("what was given back is not there");
    return cudaErrorInvalidValue;
  }
  resources_.erase(found);
  return cudaSuccess;
}

const Shim::Resource* Shim::Find(Kind kind, const void* address) const {
  std::size_t left = 0;
  return Find(kind, address, &left);
}

const Shim::Resource* Shim::Find(Kind kind, const void* address, std::size_t* left) const {
  auto found = resources_.upper_bound(address);
  if (found == resources_.begin()) return nullptr;
  --found;
  const auto* const end = static_cast<const std::byte*>(found->first) + found->second.size;
  const bool is_inside = static_cast<const std::byte*>(address) < end;
  if (!is_inside || found->second.kind != kind) return nullptr;
  *left = static_cast<std::size_t>(end - static_cast<const std::byte*>(address));
  return &found->second;
}

// Kernels read memory of their own GPU, and that part of the host's memory that CUDA knows, even if it was
// registered part by part.
bool Shim::MayRead(int device, const void* address, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(address);
  while (bytes > 0) {
    std::size_t left = 0;
    const bool is_there =
        Find(Kind::kHostMemory, at, &left) != nullptr || Find(Kind::kRegistration, at, &left) != nullptr;
    if (!is_there) {
      const Resource* resource = Find(Kind::kDeviceMemory, at, &left);
      if (resource == nullptr) resource = Find(Kind::kMapping, at, &left);
      if (resource == nullptr || resource->device != device) return false;
    }
    left = std::min(left, bytes);
    at += left;
    bytes -= left;
  }
  return true;
}

// This follows CUDA: a copy that begins in registered memory must end there, and none that began elsewhere
// may end in registered memory.
bool Shim::MayCopy(const void* memory, std::size_t bytes) const {
  if (bytes == 0) return true;
  std::size_t left = 0;
  if (Find(Kind::kRegistration, memory, &left) != nullptr) return bytes <= left;
  return Find(Kind::kRegistration, static_cast<const std::byte*>(memory) + bytes - 1, &left) == nullptr;
}

std::size_t Shim::BytesOf(Kind kind) const {
  std::size_t bytes = 0;
  for (const auto& [key, resource] : resources_) bytes += resource.kind == kind ? resource.size : 0;
  return bytes;
}

Shim::Resource* Shim::Exported(const cudaIpcMemHandle_t& handle) {
  const auto number = static_cast<std::size_t>(handle.reserved[0]);
  return number == 0 || number > exported_.size() ? nullptr : &exported_[number - 1];
}

cudaError_t Shim::TakeLastError() {
  const cudaError_t error = last_error();
  last_ = cudaSuccess;
  return error;
}

Stream* Shim::Known(cudaStream_t stream) {
  if (stream == cudaStreamLegacy) return &legacy_streams_[current_];
  if (stream == cudaStreamPerThread) return &thread_streams_[current_];
  const auto found = resources_.find(stream);
  if (found != resources_.end() && found->second.kind == Kind::kStream) return stream;
  Misuse("no such stream");
  return nullptr;
}

void Shim::Drain(Stream& stream) {
  while (!stream.work.empty()) {
    const std::function<void()> work = std::move(stream.work.front());
    stream.work.pop_front();
    work();
  }
}

// For example for cudaFree, which waits for everything that the GPU does.
void Shim::DrainAll() {
  for (Stream& stream : legacy_streams_) Drain(stream);
  for (Stream& stream : thread_streams_) Drain(stream);
  for (auto& [key, resource] : resources_) {
    if (resource.stream != nullptr) Drain(*resource.stream);
  }
}

}  // namespace warpfold::kernels::shim
