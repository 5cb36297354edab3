// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-kernel-bench: the reduction kernels against cub::DeviceReduce and a read-only ceiling, on data
// that lies in device memory, in one process. One JSON object per line.
//
//   warpfold-kernel-bench [--min_log2 N] [--max_log2 N] [--commit HASH] [--date YYYY-MM-DD]
//
// The contenders take turns within each repetition; figures are medians of GB/s of input. The data are
// random and rotate through a pool larger than the L2 cache, so that every pass reads device memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cub/device/device_reduce.cuh>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/device_reducer.h"

namespace {

using warpfold::kernels::ElementType;
using warpfold::kernels::Reduction;
using warpfold::kernels::ReductionSpec;
using warpfold::kernels::cuda::DeviceReducer;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Settings {
  int min_log2 = 12;
  int max_log2 = 30;
  std::string commit = "unknown";
  std::string date = "unknown";
  std::string device;
};

__global__ void FillRandom(std::uint64_t* words, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    words[i] = (z ^ (z >> 31)) & 0x3fffffff3fffffffu;  // no NaN, no infinity, whatever the type
  }
}

// Reads everything and writes nothing that matters: what the memory gives to 16-byte loads.
__global__ void __launch_bounds__(512) ReadOnly(const uint4* data, std::size_t count, unsigned* out) {
  unsigned sum = 0;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const uint4 a = __ldcs(data + i), b = __ldcs(data + i + stride);
    const uint4 c = __ldcs(data + i + 2 * stride), d = __ldcs(data + i + 3 * stride);
    sum += a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) sum += data[i].x ^ data[i].y ^ data[i].z ^ data[i].w;
  if (sum == 0x12345678u) *out = sum;
}

// Times single calls in turn. Each contender is given the address of its input.
class Race {
 public:
  using Contender = std::function<void(const std::byte*)>;

  Race(const std::byte* pool, std::size_t pool_bytes, cudaStream_t stream)
      : pool_(pool), pool_bytes_(pool_bytes), stream_(stream) {
    Check(cudaEventCreate(&begin_), "event");
    Check(cudaEventCreate(&end_), "event");
  }

  // Median GB/s of each contender.
  std::vector<double> Run(std::size_t bytes, const std::vector<Contender>& contenders) {
    const int repetitions = bytes >= std::size_t{1} << 30 ? 9 : 25;
    std::vector<std::vector<double>> ms(contenders.size());
    for (int r = 0; r < repetitions + 2; ++r) {
      for (std::size_t c = 0; c < contenders.size(); ++c) {
        const double one = Time(bytes, contenders[c]);
        if (r >= 2) ms[c].push_back(one);
      }
    }
    std::vector<double> gbps;
    for (auto& times : ms) {
      std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
      gbps.push_back(bytes / times[times.size() / 2] / 1e6);
    }
    return gbps;
  }

 private:
  // Small inputs are timed in batches: one call is shorter than the resolution of an event.
  double Time(std::size_t bytes, const Contender& contender) {
    const int batch = bytes >= std::size_t{1} << 24 ? 1 : 8;
    Check(cudaEventRecord(begin_, stream_), "record");
    for (int i = 0; i < batch; ++i) {
      contender(pool_ + next_);
      next_ += (bytes + 255) / 256 * 256;
      if (next_ + bytes > pool_bytes_) next_ = 0;
    }
    Check(cudaEventRecord(end_, stream_), "record");
    Check(cudaEventSynchronize(end_), "synchronize");
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin_, end_), "elapsed");
    return ms / batch;
  }

  const std::byte* pool_;
  const std::size_t pool_bytes_;
  cudaStream_t stream_;
  std::size_t next_ = 0;
  cudaEvent_t begin_, end_;
};

struct Case {
  const char* op;
  ElementType type;
  const char* dtype;
  std::size_t element_bytes;
  std::uint32_t dimension = 0;  // of square matrices
  // Two-phase CUB call, or empty where CUB has no such reduction.
  std::function<cudaError_t(void*, std::size_t&, const std::byte*, std::size_t, cudaStream_t)> cub = {};
};

// CUB's result buffer: one for all calls, they are on one stream.
void* g_cub_out = nullptr;

template <class T, class Reduce>
auto CubCall(Reduce reduce) {
  return [reduce](void* temporary, std::size_t& temporary_bytes, const std::byte* data, std::size_t bytes,
                  cudaStream_t stream) {
    return reduce(temporary, temporary_bytes, reinterpret_cast<const T*>(data), static_cast<T*>(g_cub_out),
                  static_cast<std::int64_t>(bytes / sizeof(T)), stream);
  };
}

template <class T>
void AddScalarCases(ElementType type, const char* dtype, std::vector<Case>& cases) {
  cases.push_back(
      {"sum", type, dtype, sizeof(T), 0, CubCall<T>([](auto... a) { return cub::DeviceReduce::Sum(a...); })});
  cases.push_back(
      {"min", type, dtype, sizeof(T), 0, CubCall<T>([](auto... a) { return cub::DeviceReduce::Min(a...); })});
  cases.push_back({"product", type, dtype, sizeof(T), 0});
  cases.push_back({"argmin", type, dtype, sizeof(T), 0});
  cases.push_back({"count_nonzero", type, dtype, sizeof(T), 0});
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  AddScalarCases<std::int32_t>(ElementType::kInt32, "int32", cases);
  AddScalarCases<std::int64_t>(ElementType::kInt64, "int64", cases);
  AddScalarCases<float>(ElementType::kFloat32, "float32", cases);
  AddScalarCases<double>(ElementType::kFloat64, "float64", cases);
  for (const std::uint32_t d : {2u, 4u, 8u}) {
    cases.push_back({"matrix_product", ElementType::kUint32, "uint32", d * d * 4, d});
    cases.push_back({"matrix_product", ElementType::kFloat32, "float32", d * d * 4, d});
  }
  cases.push_back({"sum", ElementType::kFloat32, "float32", 64, 4});
  return cases;
}

void RunCase(const Settings& settings, const Case& c, std::size_t bytes, Race& race, DeviceReducer& reducer,
             const std::byte* pool, void* temporary, std::size_t temporary_bytes, cudaStream_t stream) {
  ReductionSpec spec;
  spec.operators = {c.op};
  spec.element_type = c.type;
  spec.shape = {c.dimension, c.dimension};
  const Reduction reduction = Reduction::Create(spec).value();
  const auto ours = [&](const std::byte* data) {
    const absl::Status status = reducer.Launch(reduction, 0, data, bytes / c.element_bytes, stream);
    if (!status.ok()) Check(cudaErrorUnknown, status.ToString().c_str());
  };
  const auto ceiling = [&](const std::byte* data) {
    const auto vectors = bytes / 16;
    const unsigned blocks = static_cast<unsigned>(std::min<std::size_t>((vectors + 511) / 512, 132 * 4));
    ReadOnly<<<blocks, 512, 0, stream>>>(reinterpret_cast<const uint4*>(data), vectors,
                                         static_cast<unsigned*>(g_cub_out));
  };
  std::vector<Race::Contender> contenders = {ours, ceiling};
  if (c.cub) {
    std::size_t needed = 0;
    Check(c.cub(nullptr, needed, pool, bytes, stream), "cub size");
    if (needed > temporary_bytes) Check(cudaErrorMemoryAllocation, "cub temporary storage");
    contenders.push_back([&](const std::byte* data) {
      std::size_t size = temporary_bytes;
      Check(c.cub(temporary, size, data, bytes, stream), "cub");
    });
  }
  const std::vector<double> gbps = race.Run(bytes, contenders);
  std::printf(
      "{\"bench\":\"kernel\",\"algorithm\":\"auto\",\"operator\":\"%s\",\"dtype\":\"%s\",\"matrix\":%u,"
      "\"bytes\":%zu,\"gbps\":%.1f,",
      c.op, c.dtype, c.dimension, bytes, gbps[0]);
  if (c.cub) std::printf("\"cub_gbps\":%.1f,\"to_cub\":%.3f,", gbps[2], gbps[0] / gbps[2]);
  std::printf(
      "\"ceiling_gbps\":%.1f,\"to_ceiling\":%.3f,\"device\":\"%s\",\"commit\":\"%s\",\"date\":\"%s\"}\n",
      gbps[1], gbps[0] / gbps[1], settings.device.c_str(), settings.commit.c_str(), settings.date.c_str());
  std::fflush(stdout);
}

Settings Parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--min_log2") settings.min_log2 = std::atoi(argv[i + 1]);
    if (flag == "--max_log2") settings.max_log2 = std::atoi(argv[i + 1]);
    if (flag == "--commit") settings.commit = argv[i + 1];
    if (flag == "--date") settings.date = argv[i + 1];
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings = Parse(argc, argv);
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0), "no GPU");
  settings.device = properties.name;

  const std::size_t largest = std::size_t{1} << settings.max_log2;
  const std::size_t pool_bytes = std::max<std::size_t>(2 * largest, std::size_t{1} << 28);
  std::byte* pool = nullptr;
  void* temporary = nullptr;
  constexpr std::size_t kTemporaryBytes = std::size_t{64} << 20;
  Check(cudaMalloc(reinterpret_cast<void**>(&pool), pool_bytes), "pool");
  Check(cudaMalloc(&temporary, kTemporaryBytes), "temporary");
  Check(cudaMalloc(&g_cub_out, 64), "out");
  FillRandom<<<1024, 256>>>(reinterpret_cast<std::uint64_t*>(pool), pool_bytes / 8);
  Check(cudaDeviceSynchronize(), "fill");

  cudaStream_t stream;
  Check(cudaStreamCreate(&stream), "stream");
  auto reducer = DeviceReducer::Create(largest);
  if (!reducer.ok()) Check(cudaErrorUnknown, reducer.status().ToString().c_str());
  Race race(pool, pool_bytes, stream);
  for (const Case& c : Cases()) {
    for (int log2 = settings.min_log2; log2 <= settings.max_log2; log2 += 2) {
      RunCase(settings, c, std::size_t{1} << log2, race, **reducer, pool, temporary, kTemporaryBytes, stream);
    }
  }
  return 0;
}
