// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-kernel-bench: Warpfold's kernels compared with CUB, Thrust and a read-only ceiling.
// docs/benchmarks.md says how it measures, and shows what it found.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_reducer.h"
#include "tests/benchmarks/cuda/cases.h"
#include "tests/benchmarks/cuda/ceiling.h"
#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/cuda/flags.h"
#include "tests/benchmarks/cuda/production.h"
#include "tests/benchmarks/cuda/random_pool.h"
#include "tests/benchmarks/cuda/rivals.h"
#include "tests/benchmarks/cuda/stopwatches.h"
#include "tests/benchmarks/json_line.h"

namespace warpfold::benchmarks {
namespace {

using kernels::ReductionPlan;
using kernels::Scalar;
using kernels::cuda::DeviceReducer;

// What all cases share.
struct Bench {
  const Flags& flags;
  RandomPool& pool;
  DeviceReducer& reducer;
  Rivals& rivals;
  cudaStream_t stream;
};

void Append(std::vector<Contender> more, std::vector<Contender>& contenders) {
  for (Contender& contender : more) contenders.push_back(std::move(contender));
}

long double ValueOf(const Scalar& scalar) {
  switch (scalar.kind) {
    case Scalar::Kind::kInt64:
      return scalar.int64_value;
    case Scalar::Kind::kUint64:
      return scalar.uint64_value;
    case Scalar::Kind::kDouble:
      return scalar.double_value;
    case Scalar::Kind::kBool:
      return scalar.bool_value;
  }
  return 0;
}

// A fast wrong answer is worth nothing: both sides must have reduced the same elements to the same value.
void CheckAgainstCub(const Bench& bench, const ReductionPlan& reduction, std::uint64_t bytes) {
  const std::byte* data = bench.pool.Next(bytes);
  const std::optional<long double> cub = bench.rivals.Value(reduction, data, bytes);
  if (!cub) return;
  const std::uint64_t count = bytes / reduction.element_bytes();
  const absl::Status launched = bench.reducer.Launch(reduction, 0, data, count, bench.stream);
  if (!launched.ok()) Check(cudaErrorLaunchFailure, launched.ToString().c_str());
  Check(cudaStreamSynchronize(bench.stream), "Warpfold");
  const auto result = bench.reducer.Collect().Finish(0);
  if (absl::IsOutOfRange(result.status()) && std::fabs(*cub) >= 0x1p63L) return;
  if (!result.ok()) Check(cudaErrorUnknown, result.status().ToString().c_str());
  const Scalar value = result->entries.front();
  const std::string& op = reduction.spec().operators.front();
  const long double ours = ValueOf(value);
  const bool is_float = value.kind == Scalar::Kind::kDouble;
  // The error of a sum is relative to 1, since elements are at most 2; that of a product is relative to the
  // product.
  const long double scale = is_float && op == "sum" ? 1 : is_float && op == "product" ? std::fabs(*cub) : 0;
  const long double tolerance = 1e-15L * static_cast<long double>(count) * scale;
  if (ours == *cub || std::fabs(ours - *cub) <= tolerance) return;
  std::fprintf(stderr, "%s of %s over %llu bytes: Warpfold says %.20Lg, CUB %.20Lg\n",
               reduction.spec().operators.front().c_str(),
               std::string(ElementTypeName(reduction.spec().element_type)).c_str(),
               static_cast<unsigned long long>(bytes), ours, *cub);
  std::exit(1);
}

// Compares all other results with the host's bits. Only for short arrays, since the host is slow.
void CheckAgainstHost(const Bench& bench, const ReductionPlan& reduction, std::uint64_t bytes) {
  constexpr std::uint64_t kLongest = 1 << 22;
  if (bytes > kLongest) return;
  const std::byte* const data = bench.pool.Next(bytes);
  const std::uint64_t count = bytes / reduction.element_bytes();
  std::vector<std::byte> array(count * reduction.element_bytes());
  Check(cudaMemcpy(array.data(), data, array.size(), cudaMemcpyDeviceToHost), "elements");
  const absl::Status launched = bench.reducer.Launch(reduction, 0, data, count, bench.stream);
  if (!launched.ok()) Check(cudaErrorLaunchFailure, launched.ToString().c_str());
  Check(cudaStreamSynchronize(bench.stream), "Warpfold");
  const kernels::PartialState ours = bench.reducer.Collect();
  const kernels::PartialState host = kernels::ReduceOnHost(reduction, 0, array);
  bool equal = std::ranges::equal(ours.nodes(), host.nodes());
  for (std::size_t op = 0; equal && op < reduction.operators().size(); ++op) {
    if (!reduction.operators()[op].by_node)
      equal = std::ranges::equal(ours.RangeState(op), host.RangeState(op));
    for (std::size_t i = 0; equal && i < host.nodes().size(); ++i) {
      if (reduction.operators()[op].by_node) {
        equal = std::ranges::equal(ours.NodeState(op, i), host.NodeState(op, i));
      }
    }
  }
  if (!equal) {
    std::fprintf(stderr, "%s of %llu bytes: not the host's bits\n",
                 reduction.spec().operators.front().c_str(), static_cast<unsigned long long>(bytes));
    std::exit(1);
  }
}

void LaunchOnce(const Bench& bench, const ReductionPlan& reduction, std::uint64_t bytes) {
  const absl::Status launched = bench.reducer.Launch(reduction, 0, bench.pool.Next(bytes),
                                                     bytes / reduction.element_bytes(), bench.stream);
  if (!launched.ok()) Check(cudaErrorLaunchFailure, launched.ToString().c_str());
  Check(cudaStreamSynchronize(bench.stream), "Warpfold");
}

// The first launch brings the operator's kernels to the device: for each operator only the first of its cases
// counts.
void TimeFirstUse(const Bench& bench, const ReductionPlan& reduction, std::uint64_t bytes) {
  using Clock = std::chrono::steady_clock;
  JsonLine line("first_use", "auto", reduction.spec(), bytes);
  for (const char* key : {"first_us", "second_us"}) {
    const auto begin = Clock::now();
    LaunchOnce(bench, reduction, bytes);
    line.Add(key, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  line.Print(bench.flags.provenance);
}

void RunOnDevice(const Bench& bench, const ReductionPlan& reduction, std::uint64_t bytes) {
  std::vector<Contender> contenders;
  for (const std::string& algorithm : bench.flags.algorithms) {
    contenders.push_back(Production(algorithm, reduction, bytes, bench.reducer, bench.stream));
  }
  Append(bench.rivals.OnDevice(reduction, bytes), contenders);
  Append(ReadCeilings(bytes, bench.stream), contenders);
  DeviceStopwatch stopwatch(bytes, bench.pool, bench.stream);
  const Standings standings = Race(std::span<const Contender>(contenders), bench.flags.rounds, stopwatch);
  for (const std::string& algorithm : bench.flags.algorithms) {
    JsonLine line("kernel", algorithm, reduction.spec(), bytes);
    line.AddGbps("", algorithm, standings);
    for (const std::string rival : {"cub", "cub_native", "thrust", "ceiling"}) {
      line.AddGbps(rival + "_", rival, standings);
    }
    line.AddRatio("to_cub", algorithm, "cub", standings);
    line.AddRatio("to_cub_native", algorithm, "cub_native", standings);
    line.AddRatio("to_ceiling", algorithm, "ceiling", standings);
    line.AddMicroseconds("", algorithm, standings);
    line.Add("rounds", standings.at(algorithm).samples);
    line.Add("calls_per_round", stopwatch.calls_per_batch());
    if (bench.flags.wide) line.Add("data", "wide");
    line.Print(bench.flags.provenance);
  }
}

void RunFromHost(const Bench& bench, const ReductionPlan& reduction, std::uint64_t bytes) {
  const cudaStream_t stream = bench.stream;
  const auto empty = [stream](const std::byte*) {
    LaunchEmpty(stream);
    Check(cudaStreamSynchronize(stream), "empty kernel");
  };
  std::vector<Contender> contenders = {{.key = "empty", .call = empty, .waits = true}};
  for (const std::string& algorithm : bench.flags.algorithms) {
    contenders.push_back(ProductionFromHost(algorithm, reduction, bytes, bench.reducer, stream));
  }
  Append(bench.rivals.FromHost(reduction, bytes), contenders);
  for (const Contender& ceiling : ReadCeilings(bytes, stream)) {
    const auto call = [ceiling, stream](const std::byte* data) {
      ceiling.call(data);
      Check(cudaStreamSynchronize(stream), "ceiling");
    };
    contenders.push_back({.key = ceiling.key, .call = call, .waits = true});
  }
  HostStopwatch stopwatch(bytes, bench.pool);
  // A call takes 10 us: there is time for many more rounds than on the device.
  RoundLimits limits = bench.flags.rounds;
  limits.max_rounds *= 10;
  const Standings standings = Race(std::span<const Contender>(contenders), limits, stopwatch);
  for (const std::string& algorithm : bench.flags.algorithms) {
    JsonLine line("from_host", algorithm, reduction.spec(), bytes);
    line.AddMicroseconds("", algorithm, standings);
    for (const std::string rival :
         {"empty", "cub", "cub_native", "cub_mapped", "thrust", "thrust_scratch", "ceiling"}) {
      line.AddMicroseconds(rival + "_", rival, standings);
    }
    line.AddGbps("", algorithm, standings);
    line.AddGbps("cub_", "cub", standings);
    line.AddGbps("ceiling_", "ceiling", standings);
    line.AddRatio("to_cub", algorithm, "cub", standings);
    line.Add("rounds", standings.at(algorithm).samples);
    line.Print(bench.flags.provenance);
  }
}

// Floats of like magnitude, as most arrays have them, unless wide ones are requested; for products, floats
// such that the products do not vanish.
RandomData DataOf(const Flags& flags, const kernels::ReductionSpec& spec) {
  const bool is_product = spec.operators.front() == "product";
  if (flags.wide) return RandomData::kBits;
  switch (spec.element_type) {
    case kernels::ElementType::kFloat32:
      return is_product ? RandomData::kFloatsNearOne : RandomData::kUniformFloats;
    case kernels::ElementType::kFloat64:
      return is_product ? RandomData::kDoublesNearOne : RandomData::kUniformDoubles;
    default:
      return RandomData::kBits;
  }
}

void RunCase(const Bench& bench, const Case& c) {
  bench.pool.FillWith(DataOf(bench.flags, c.spec));
  const ReductionPlan reduction = ReductionPlan::Create(c.spec).value();
  for (const int log2 : c.log2_bytes) {
    // Whole elements: for 3 x 3 matrices this is a little less than 2^log2 bytes.
    const std::uint64_t limit = std::uint64_t{1} << log2;
    const std::uint64_t bytes = limit / reduction.element_bytes() * reduction.element_bytes();
    if (bench.flags.once) {
      LaunchOnce(bench, reduction, bytes);
      continue;
    }
    if (bench.flags.first_use) {
      TimeFirstUse(bench, reduction, bytes);
      continue;
    }
    CheckAgainstCub(bench, reduction, bytes);
    CheckAgainstHost(bench, reduction, bytes);
    if (c.from_host) {
      RunFromHost(bench, reduction, bytes);
    } else {
      RunOnDevice(bench, reduction, bytes);
    }
  }
}

int Main(int argc, const char* const* argv) {
  Flags flags = ParseFlags(argc, argv);
  const std::vector<Case> cases = Cases(flags);
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0), "no GPU");
  flags.provenance.device = properties.name;
  int largest_log2 = 0;
  for (const Case& c : cases) {
    for (const int log2 : c.log2_bytes) largest_log2 = std::max(largest_log2, log2);
  }
  const std::size_t largest = std::size_t{1} << largest_log2;

  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  // Twice the size: an array of odd elements ends in a separate leaf, and states may be wider than entries.
  auto reducer = DeviceReducer::Create(2 * std::max(largest, std::size_t{1} << 20));
  if (!reducer.ok()) Check(cudaErrorMemoryAllocation, reducer.status().ToString().c_str());
  const std::size_t cache_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  RandomPool pool(std::max(2 * largest, 16 * cache_bytes));
  Rivals rivals(stream);
  const Bench bench{flags, pool, **reducer, rivals, stream};
  const auto begin = std::chrono::steady_clock::now();
  for (const Case& c : cases) RunCase(bench, c);
  std::fprintf(stderr, "%zu cases in %.0f s\n", cases.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return 0;
}

}  // namespace
}  // namespace warpfold::benchmarks

int main(int argc, char** argv) { return warpfold::benchmarks::Main(argc, argv); }
