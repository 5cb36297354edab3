// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/rivals.h"

#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/cuda/cub_row.h"
#include "tests/benchmarks/cuda/thrust_reduce.h"

namespace warpfold::benchmarks {
namespace {

using kernels::ReductionPlan;

constexpr std::size_t kTemporaryBytes = std::size_t{64} << 20;

// CUB and Thrust reduce scalars.
const CubRow* CubRowFor(const ReductionPlan& reduction) {
  const kernels::ReductionSpec& spec = reduction.spec();
  if (spec.shape.is_matrix()) return nullptr;
  return FindCubRow(spec.operators.front(), ElementTypeName(spec.element_type));
}

ThrustFunction ThrustFor(const ReductionPlan& reduction) {
  const kernels::ReductionSpec& spec = reduction.spec();
  if (spec.shape.is_matrix()) return nullptr;
  return FindThrust(spec.operators.front(), ElementTypeName(spec.element_type));
}

std::int64_t Count(const ReductionPlan& reduction, std::size_t bytes) {
  return static_cast<std::int64_t>(bytes / reduction.element_bytes());
}

void CheckTemporary(CubFunction function, std::int64_t count, void* out, cudaStream_t stream) {
  std::size_t needed = 0;
  Check(function(nullptr, needed, nullptr, count, out, stream), "CUB");
  if (needed > kTemporaryBytes) Check(cudaErrorMemoryAllocation, "CUB's temporary storage");
}

}  // namespace

Rivals::Rivals(cudaStream_t stream) : stream_(stream) {
  Check(cudaMalloc(reinterpret_cast<void**>(&temporary_), kTemporaryBytes), "temporary storage");
  Check(cudaMalloc(reinterpret_cast<void**>(&out_), kCubOutBytes), "result");
  Check(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), kCubOutBytes, cudaHostAllocMapped), "result");
  Check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&mapped_), pinned_, 0), "result");
}

Rivals::~Rivals() {
  cudaFree(temporary_);
  cudaFree(out_);
  cudaFreeHost(pinned_);
}

std::vector<Contender> Rivals::OnDevice(const ReductionPlan& reduction, std::size_t bytes) {
  std::vector<Contender> contenders;
  const std::int64_t count = Count(reduction, bytes);
  const auto add_cub = [&](const char* key, CubFunction function, std::byte* out) {
    CheckTemporary(function, count, out, stream_);
    const auto call = [this, function, count, out](const std::byte* data) {
      std::size_t temporary_bytes = kTemporaryBytes;
      Check(function(temporary_, temporary_bytes, data, count, out, stream_), "CUB");
    };
    contenders.push_back({.key = key, .call = call});
  };
  if (const CubRow* row = CubRowFor(reduction)) {
    add_cub("cub", row->wide, mapped_);
    add_cub("cub_native", row->native, out_);
  }
  if (const ThrustFunction thrust = ThrustFor(reduction)) {
    const auto call = [this, thrust, count](const std::byte* data) {
      thrust(data, count, temporary_, stream_);
    };
    contenders.push_back({.key = "thrust", .call = call, .waits = true});
  }
  return contenders;
}

std::vector<Contender> Rivals::FromHost(const ReductionPlan& reduction, std::size_t bytes) {
  std::vector<Contender> contenders;
  const std::int64_t count = Count(reduction, bytes);
  const auto add_cub = [&](const char* key, CubFunction function, std::byte* out) {
    CheckTemporary(function, count, out, stream_);
    const auto call = [this, function, count, out](const std::byte* data) {
      std::size_t temporary_bytes = kTemporaryBytes;
      Check(function(temporary_, temporary_bytes, data, count, out, stream_), "CUB");
      if (out == out_) {
        Check(cudaMemcpyAsync(pinned_, out_, kCubOutBytes, cudaMemcpyDeviceToHost, stream_), "CUB's result");
      }
      Check(cudaStreamSynchronize(stream_), "CUB");
    };
    contenders.push_back({.key = key, .call = call, .waits = true});
  };
  if (const CubRow* row = CubRowFor(reduction)) {
    add_cub("cub", row->wide, out_);
    if (row->native != row->wide) add_cub("cub_native", row->native, out_);
    add_cub("cub_mapped", row->wide, mapped_);
  }
  if (const ThrustFunction thrust = ThrustFor(reduction)) {
    const auto add_thrust = [&](const char* key, void* scratch) {
      const auto call = [this, thrust, count, scratch](const std::byte* data) {
        thrust(data, count, scratch, stream_);
      };
      contenders.push_back({.key = key, .call = call, .waits = true});
    };
    add_thrust("thrust", nullptr);
    add_thrust("thrust_scratch", temporary_);
  }
  return contenders;
}

std::optional<long double> Rivals::Value(const ReductionPlan& reduction, const std::byte* data,
                                         std::size_t bytes) {
  const CubRow* row = CubRowFor(reduction);
  if (row == nullptr) return std::nullopt;
  std::size_t temporary_bytes = kTemporaryBytes;
  Check(row->wide(temporary_, temporary_bytes, data, Count(reduction, bytes), out_, stream_), "CUB");
  Check(cudaMemcpyAsync(pinned_, out_, kCubOutBytes, cudaMemcpyDeviceToHost, stream_), "CUB's result");
  Check(cudaStreamSynchronize(stream_), "CUB");
  return row->value(pinned_);
}

}  // namespace warpfold::benchmarks
