// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-segment-bench: segments in device memory, reduced by Warpfold and by CUB, compared with the
// read-only ceiling. Results stay in device memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/segments/device_segment_reducer.h"
#include "kernels/segment_out.h"
#include "tests/benchmarks/common_flags.h"
#include "tests/benchmarks/cuda/ceiling.h"
#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/cuda/random_pool.h"
#include "tests/benchmarks/cuda/segments/cub_segments.h"
#include "tests/benchmarks/cuda/stopwatches.h"
#include "tests/benchmarks/json_line.h"
#include "tests/benchmarks/scalar_cases.h"

namespace warpfold::benchmarks {
namespace {

using kernels::ReductionPlan;
using kernels::SegmentCut;
using kernels::cuda::DeviceSegmentReducer;

struct Flags {
  ScalarCases cases;
  std::vector<std::uint64_t> segment_bytes = {64, 256, 1024, 2048, 4096, 16384, 65536, 262144, 1048576};
  std::uint64_t total_bytes = std::uint64_t{1} << 30;
  std::uint64_t offset_elements = 0;
  RoundLimits rounds;
  Provenance provenance;
};

Flags ParseFlags(int argc, const char* const* argv) {
  Flags flags;
  CLI::App app("Segments on the GPU against CUB and a read-only ceiling: a JSON object per line.");
  AddScalarCaseFlags(app, &flags.cases);
  app.add_option("--segment_bytes", flags.segment_bytes, "Bytes of each segment")->delimiter(',');
  app.add_option("--total_bytes", flags.total_bytes, "Of all segments; fewer where these are many");
  app.add_option("--offset_elements", flags.offset_elements, "The array begins so many elements further on");
  AddRoundFlags(app, &flags.rounds);
  AddProvenanceFlags(app, &flags.provenance);
  ParseOrExit(app, argc, argv);
  return flags;
}

// What all cases share.
class Bench {
 public:
  Bench(const Flags& flags, std::size_t cache_bytes)
      : flags_(flags), pool_(std::max<std::size_t>(2 * flags.total_bytes, 16 * cache_bytes) + kSpareBytes) {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    Check(cudaMalloc(reinterpret_cast<void**>(&temporary_), kTemporaryBytes), "temporary storage");
    Check(cudaMalloc(reinterpret_cast<void**>(&out_), kMaxSegments * 16), "results");
    auto reducer = DeviceSegmentReducer::Create(kMaxSegments * kMaxColumns * 8);
    if (!reducer.ok()) Check(cudaErrorMemoryAllocation, reducer.status().ToString().c_str());
    reducer_ = *std::move(reducer);
    pool_.FillWith(RandomData::kBits);
  }

  void Run(const ReductionPlan& reduction, std::uint64_t segment_bytes) {
    const SegmentCut cut = {.segment_count = std::min(flags_.total_bytes / segment_bytes, kMaxSegments),
                            .length = segment_bytes / reduction.element_bytes()};
    const std::uint64_t bytes = cut.segment_count * segment_bytes;
    CheckAgainstHost(reduction, cut);
    std::vector<Contender> contenders = ReadCeilings(bytes, stream_);
    const std::uint64_t offset = flags_.offset_elements * reduction.element_bytes();
    contenders.push_back({.key = "auto", .call = [&, offset](const std::byte* data) {
                            Launch(reduction, cut, data + offset);
                          }});
    const std::string& op = reduction.spec().operators.front();
    const std::string dtype(ElementTypeName(reduction.spec().element_type));
    if (const CubSegmentFunction cub = FindCubSegments(op, dtype)) {
      const auto call = [&, cub, offset](const std::byte* data) {
        std::size_t temporary_bytes = kTemporaryBytes;
        Check(cub(temporary_, temporary_bytes, data + offset, static_cast<std::int64_t>(cut.segment_count),
                  static_cast<std::int64_t>(cut.length), out_, stream_),
              "CUB");
      };
      contenders.push_back({.key = "cub", .call = call});
    }
    DeviceStopwatch stopwatch(bytes + kSpareBytes, pool_, stream_);
    const Standings standings = Race(std::span<const Contender>(contenders), flags_.rounds, stopwatch);
    JsonLine line("segments", "auto", reduction.spec(), bytes);
    line.Add("segment_bytes", segment_bytes);
    line.Add("segments", cut.segment_count);
    line.Add("offset_elements", flags_.offset_elements);
    line.AddGbps("", "auto", standings);
    line.AddGbps("cub_", "cub", standings);
    line.AddGbps("ceiling_", "ceiling", standings);
    line.AddRatio("to_cub", "auto", "cub", standings);
    line.AddRatio("to_ceiling", "auto", "ceiling", standings);
    line.AddMicroseconds("", "auto", standings);
    line.Add("rounds", standings.at("auto").samples);
    line.Print(flags_.provenance);
  }

 private:
  static constexpr std::uint64_t kMaxSegments = std::uint64_t{1} << 20;
  static constexpr std::size_t kMaxColumns = 6;
  static constexpr std::size_t kTemporaryBytes = std::size_t{64} << 20;
  static constexpr std::size_t kSpareBytes = 4096;  // after an array that begins further on

  void Launch(const ReductionPlan& reduction, const SegmentCut& cut, const std::byte* data) {
    const absl::Status launched = reducer_->Launch(reduction, cut, data, stream_, {});
    if (!launched.ok()) Check(cudaErrorLaunchFailure, launched.ToString().c_str());
  }

  // A fast wrong answer is worth nothing. Only the first segments are checked, since the host is slow.
  void CheckAgainstHost(const ReductionPlan& reduction, SegmentCut cut) {
    constexpr std::uint64_t kBytes = 4 << 20;
    const std::uint64_t segment_bytes = cut.length * reduction.element_bytes();
    cut.segment_count = std::min(cut.segment_count, kBytes / segment_bytes);
    const std::byte* const data =
        pool_.Next(kBytes + kSpareBytes) + flags_.offset_elements * reduction.element_bytes();
    std::vector<std::byte> array(cut.segment_count * segment_bytes);
    Check(cudaMemcpy(array.data(), data, array.size(), cudaMemcpyDeviceToHost), "elements");
    Launch(reduction, cut, data);
    if (!reducer_->CopyResults(stream_).ok()) Check(cudaErrorUnknown, "results");
    Check(cudaStreamSynchronize(stream_), "Warpfold");
    const kernels::SegmentsResult result = reducer_->Collect();
    for (std::uint64_t i = 0; i < cut.segment_count; ++i) {
      const auto segment = std::span<const std::byte>(array).subspan(i * segment_bytes, segment_bytes);
      const auto value = kernels::ReduceOnHost(reduction, 0, segment).Finish(0);
      const std::uint64_t expected = value.ok() ? kernels::ColumnBits(value->entries.front()) : 0;
      if (result.Column(0)[i] == expected) continue;
      std::fprintf(stderr, "%s of segments of %llu bytes: not the host's bits\n",
                   reduction.spec().operators.front().c_str(),
                   static_cast<unsigned long long>(segment_bytes));
      std::exit(1);
    }
  }

  const Flags& flags_;
  RandomPool pool_;
  std::unique_ptr<DeviceSegmentReducer> reducer_;
  cudaStream_t stream_ = nullptr;
  std::byte* temporary_ = nullptr;
  std::byte* out_ = nullptr;
};

int Main(int argc, const char* const* argv) {
  Flags flags = ParseFlags(argc, argv);
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0), "no GPU");
  flags.provenance.device = properties.name;
  Bench bench(flags, static_cast<std::size_t>(properties.l2CacheSize));
  ForEachScalarCase(flags.cases, [&](const ReductionPlan& reduction) {
    for (const std::uint64_t bytes : flags.segment_bytes) bench.Run(reduction, bytes);
  });
  return 0;
}

}  // namespace
}  // namespace warpfold::benchmarks

int main(int argc, char** argv) { return warpfold::benchmarks::Main(argc, argv); }
