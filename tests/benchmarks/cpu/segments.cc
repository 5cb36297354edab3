// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-cpu-segment-bench: segments on the CPU, on one thread, on data in memory. segments_beside_numpy.py
// runs it beside NumPy.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/segment_job.h"
#include "tests/benchmarks/common_flags.h"
#include "tests/benchmarks/cpu/cpu_model.h"
#include "tests/benchmarks/json_line.h"
#include "tests/benchmarks/rounds.h"
#include "tests/benchmarks/scalar_cases.h"

namespace warpfold::benchmarks {
namespace {

using kernels::ReductionPlan;
using kernels::SegmentCut;
using kernels::cpu::SegmentJob;

struct Flags {
  ScalarCases cases;
  std::vector<std::uint64_t> segment_elements = {4, 16, 256, 1024, 4096, 262144};
  std::uint64_t total_bytes = std::uint64_t{64} << 20;
  bool varying = false;
  RoundLimits rounds;
  Provenance provenance;
};

Flags ParseFlags(int argc, const char* const* argv) {
  Flags flags;
  CLI::App app("Segments on one thread of the CPU: a JSON object per line.");
  AddScalarCaseFlags(app, &flags.cases);
  app.add_option("--segment_elements", flags.segment_elements, "Elements of each segment")->delimiter(',');
  app.add_option("--total_bytes", flags.total_bytes, "Of all segments")->capture_default_str();
  app.add_flag("--varying", flags.varying, "Segments of that many elements, less one or more one, in turns");
  AddRoundFlags(app, &flags.rounds);
  AddProvenanceFlags(app, &flags.provenance);
  ParseOrExit(app, argc, argv);
  flags.provenance.device = CpuModel();
  flags.provenance.driver.clear();
  return flags;
}

struct WallStopwatch {
  void WarmUp(const Contender& contender) { contender.call(nullptr); }
  double TimeUs(const Contender& contender) {
    const auto begin = std::chrono::steady_clock::now();
    contender.call(nullptr);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
};

void Run(const Flags& flags, const ReductionPlan& reduction, std::uint64_t length,
         const std::vector<std::byte>& data) {
  const std::uint64_t elements = data.size() / reduction.element_bytes();
  SegmentCut cut = {.segment_count = elements / length, .length = length};
  std::vector<std::uint64_t> lengths;
  if (flags.varying) {
    cut.segment_count = cut.segment_count / 2 * 2;
    for (std::uint64_t i = 0; i < cut.segment_count; ++i)
      lengths.push_back(i % 2 == 0 ? length - 1 : length + 1);
    cut.lengths = lengths;
  }
  std::vector<std::uint64_t> values(kernels::SegmentLayout(reduction).columns().size() * cut.segment_count);
  SegmentJob job(kernels::cpu::BestInstructionSet(), values);
  const auto call = [&](const std::byte*) {
    const kernels::HostPiece all(data.data(), cut.ElementCount() * reduction.element_bytes());
    job.Plan(reduction, cut, kernels::cpu::PieceCursor({&all, 1}, nullptr));
    for (std::size_t task = 0; task < job.tasks(); ++task) job.Run(task);
    static_cast<void>(job.Collect());
  };
  const std::vector<Contender> contenders = {{.key = "auto", .call = call, .waits = true}};
  WallStopwatch stopwatch;
  const Standings standings = Race(std::span<const Contender>(contenders), flags.rounds, stopwatch);
  JsonLine line("cpu_segments", "auto", reduction.spec(),
                cut.segment_count * length * reduction.element_bytes());
  line.Add("segment_elements", length);
  line.Add("segments", cut.segment_count);
  line.Add("varying", flags.varying);
  line.AddGbps("", "auto", standings);
  line.Add("ns_per_segment", standings.at("auto").median * 1e3 / static_cast<double>(cut.segment_count));
  line.Add("rounds", standings.at("auto").samples);
  line.Print(flags.provenance);
}

int Main(int argc, const char* const* argv) {
  const Flags flags = ParseFlags(argc, argv);
  std::vector<std::byte> data(flags.total_bytes);
  std::uint32_t state = 1;
  for (std::byte& byte : data) {  // one bit of each byte is 0: no float is a NaN or infinite
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24 & 0xbf);
  }
  ForEachScalarCase(flags.cases, [&](const ReductionPlan& reduction) {
    for (const std::uint64_t length : flags.segment_elements) Run(flags, reduction, length, data);
  });
  return 0;
}

}  // namespace
}  // namespace warpfold::benchmarks

int main(int argc, char** argv) { return warpfold::benchmarks::Main(argc, argv); }
