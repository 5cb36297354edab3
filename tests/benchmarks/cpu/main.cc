// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-cpu-bench: the CPU backend compared with read-only loops, on data in memory, on one thread and on
// all. beside_numpy.py runs it beside NumPy; docs/benchmarks.md says how it measures.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/benchmarks/common_flags.h"
#include "tests/benchmarks/cpu/cpu_model.h"
#include "tests/benchmarks/cpu/read_loops.h"
#include "tests/benchmarks/json_line.h"
#include "tests/benchmarks/rounds.h"
#include "tests/benchmarks/scalar_cases.h"

namespace warpfold::benchmarks {
namespace {

using kernels::ReductionPlan;

std::vector<std::string> AllTypes() {
  std::vector<std::string> names;
  for (int type = 0; type < kElementTypeCount; ++type)
    names.emplace_back(ElementTypeName(ElementTypeAt(type)));
  return names;
}

struct Flags {
  ScalarCases cases = {.dtypes = AllTypes()};
  std::vector<int> threads = {1, 0};
  std::vector<int> log2_bytes = {16, 20, 24, 28, 30};
  RoundLimits rounds;
  Provenance provenance;
};

Flags ParseFlags(int argc, const char* const* argv) {
  Flags flags;
  CLI::App app("Reductions on the CPU against read-only loops, on data in memory: a JSON object per line.");
  AddScalarCaseFlags(app, &flags.cases);
  app.add_option("--threads", flags.threads, "Numbers of threads; 0 for one per core")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--log2_bytes", flags.log2_bytes, "Sizes: 2 to these powers, in bytes")
      ->delimiter(',')
      ->check(CLI::Range(12, 36))
      ->capture_default_str();
  AddRoundFlags(app, &flags.rounds);
  AddProvenanceFlags(app, &flags.provenance);
  ParseOrExit(app, argc, argv);
  flags.provenance.device = CpuModel();
  flags.provenance.driver.clear();
  return flags;
}

// Wall time of one call out of a batch of 32 MiB, but at most 128 calls. The data stay where they are: small
// data are in a cache, for every contender.
class BatchStopwatch {
 public:
  BatchStopwatch(const std::byte* data, std::size_t bytes)
      : data_(data), calls_(static_cast<int>(std::clamp<std::size_t>(kBatchBytes / bytes, 1, kMaxCalls))) {}

  void WarmUp(const Contender& contender) { contender.call(data_); }
  double TimeUs(const Contender& contender) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls_; ++i) contender.call(data_);
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begin;
    return us.count() / calls_;
  }

 private:
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 25;
  static constexpr std::size_t kMaxCalls = 128;

  const std::byte* data_;
  const int calls_;
};

// The CPU backend with one slot, which contains the data that all contenders read.
class Bench {
 public:
  Bench(const Flags& flags, int threads)
      : flags_(flags),
        threads_(threads != 0 ? threads
                              : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
        backend_(MakeBackend()),
        slot_(*backend_->slots().front()),
        pool_(threads_) {
    FillRandom();
  }

  void Run(const ReductionPlan& reduction, std::size_t bytes) {
    std::vector<Contender> contenders = {
        {.key = "auto", .call = [&](const std::byte*) { Reduce(reduction, bytes); }, .waits = true}};
    for (const ReadLoop loop : ReadLoops()) {
      const auto call = [this, loop, bytes](const std::byte* data) { Read(loop, data, bytes); };
      contenders.push_back({.key = "ceiling", .call = call, .waits = true});
    }
    BatchStopwatch stopwatch(slot_.staging().data(), bytes);
    const Standings standings = Race(std::span<const Contender>(contenders), flags_.rounds, stopwatch);
    JsonLine line("cpu", "auto", reduction.spec(), bytes);
    line.Add("threads", threads_);
    line.AddGbps("", "auto", standings);
    line.AddGbps("ceiling_", "ceiling", standings);
    line.AddRatio("to_ceiling", "auto", "ceiling", standings);
    line.AddMicroseconds("", "auto", standings);
    line.Add("instruction_set", std::string(kernels::cpu::BestInstructionSet().name));
    line.Add("rounds", standings.at("auto").samples);
    line.Print(flags_.provenance);
  }

 private:
  std::unique_ptr<kernels::Backend> MakeBackend() const {
    const int largest = *std::max_element(flags_.log2_bytes.begin(), flags_.log2_bytes.end());
    const std::size_t slot_bytes = std::size_t{1} << std::max(largest, 16);
    // The requested threads do all the work.
    return kernels::cpu::MakeCpuBackend({.slots = 1,
                                         .slot_bytes = slot_bytes,
                                         .threads = threads_,
                                         .inline_time = absl::ZeroDuration()})
        .value();
  }

  // Every bit is random except one in 16, which is 0: no float of any width is a NaN or infinite.
  void FillRandom() {
    const std::span<std::byte> staging = slot_.staging();
    auto* words = reinterpret_cast<std::uint64_t*>(staging.data());
    std::uint64_t state = 0;
    for (std::size_t i = 0; i < staging.size() / 8; ++i) {
      std::uint64_t z = (state += 0x9e3779b97f4a7c15u);  // SplitMix64
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      words[i] = (z ^ (z >> 31)) & 0xbfffbfffbfffbfffu;
    }
  }

  // One thread means the calling one; several are the backend's.
  void Reduce(const ReductionPlan& reduction, std::size_t bytes) {
    if (threads_ == 1) {
      static_cast<void>(kernels::ReduceOnHost(reduction, 0, slot_.staging().first(bytes)).Finish(0));
      return;
    }
    const absl::Status started = slot_.Start(reduction, 0, bytes / reduction.element_bytes());
    const auto result = started.ok() ? slot_.Wait() : started;
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      std::exit(1);
    }
    static_cast<void>(result->state->Finish(0));
  }

  void Read(ReadLoop loop, const std::byte* data, std::size_t bytes) {
    const std::size_t parts =
        std::min<std::size_t>(static_cast<std::size_t>(threads_), bytes / kReadStepBytes);
    if (parts == 1) {
      sink_ = loop(data, bytes);
      return;
    }
    std::latch done(1);
    const std::size_t steps = bytes / kReadStepBytes;
    const auto read = [&](std::size_t part) {
      const std::size_t begin = steps * part / parts;
      const std::size_t end = steps * (part + 1) / parts;
      const std::uint64_t fold = loop(data + begin * kReadStepBytes, (end - begin) * kReadStepBytes);
      if (fold == 1) sink_ = fold;  // Next to never, which the compiler cannot know.
    };
    pool_.Run(0, {.tasks = parts, .run = read, .on_end = [&done] { done.count_down(); }});
    done.wait();
  }

  const Flags& flags_;
  const int threads_;
  const std::unique_ptr<kernels::Backend> backend_;
  kernels::Slot& slot_;
  volatile std::uint64_t sink_ = 0;
  kernels::cpu::ThreadPool pool_;  // of the read loops
};

int Main(int argc, const char* const* argv) {
  const Flags flags = ParseFlags(argc, argv);
  for (const int threads : flags.threads) {
    Bench bench(flags, threads);
    ForEachScalarCase(flags.cases, [&](const ReductionPlan& reduction) {
      for (const int log2 : flags.log2_bytes) bench.Run(reduction, std::size_t{1} << log2);
    });
  }
  return 0;
}

}  // namespace
}  // namespace warpfold::benchmarks

int main(int argc, char** argv) { return warpfold::benchmarks::Main(argc, argv); }
