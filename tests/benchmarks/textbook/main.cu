// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-textbook-bench: every kernel of the textbook beside its published form, and the production kernel,
// in turns with a read-only ceiling in one process, on sums of int32. Results must equal those of a loop on
// the host before anything is timed. Prints one JSON line for each algorithm: medians in GB/s, with states as
// wide as the elements and with wide ones, and as shares of the published form and the ceiling.
//
//   warpfold-textbook-bench [MIB of the grids' array, 1024 by default [COMMIT DATE DRIVER]]
//
// It takes 10 to 20 seconds. The exit status is 1 if a result is wrong, or if the published last block does
// not come near the ceiling: then the published forms are not written as they were published.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/benchmarks/cuda/ceiling.h"
#include "tests/benchmarks/textbook/contenders.cuh"

namespace warpfold::benchmarks {
namespace {

// The published last block is bound by the memory on GPUs that hold two of its blocks on a multiprocessor.
constexpr double kMinOfCeiling = 0.9;
constexpr std::size_t kMibForCeiling = 1024;

template <class T>
T Fetch(const void* from) {
  T value;
  Check(cudaGetLastError());
  Check(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

[[noreturn]] void Fail(const char* who, int count) {
  std::fprintf(stderr, "%s is wrong over %d elements\n", who, count);
  std::exit(1);
}

// Checks every algorithm, with states as wide as the elements and with wide ones, and the published forms.
void CheckAll(const Memory& m, const std::vector<int>& host) {
  std::vector<int> counts = {1, 31, 33, 1023, 1025, 4097, (1 << 20) + 3};
  counts.push_back(static_cast<int>(host.size()));
  for (const int count : counts) {
    std::int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += host[i];
    const auto low = static_cast<std::int32_t>(sum);
    for (int i = 0; i < kernels::kAlgorithmCount; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      if (algorithm == Algorithm::kAuto) {
        if (count != static_cast<int>(host.size())) continue;
        CallOurs(algorithm, false, m, count);
        if (Fetch<std::int64_t>(m.workspace.nodes) != sum) Fail("the production kernel", count);
        continue;
      }
      CallOurs(algorithm, true, m, count);
      if (Fetch<std::int32_t>(m.workspace.nodes) != low) Fail(kernels::AlgorithmName(algorithm), count);
      CallOurs(algorithm, false, m, count);
      if (Fetch<std::int64_t>(m.workspace.nodes) != sum) Fail(kernels::AlgorithmName(algorithm), count);
    }
    for (const auto& [algorithm, form] : PublishedForms()) {
      Check(cudaMemset(m.out, 0, sizeof(int)));
      form.call(m, count);
      if (Fetch<std::int32_t>(m.out) != low) Fail(form.name, count);
    }
  }
}

class Stopwatch {
 public:
  Stopwatch() {
    Check(cudaEventCreate(&begin_));
    Check(cudaEventCreate(&end_));
  }
  double Ms(const std::function<void()>& call) {
    Check(cudaEventRecord(begin_));
    call();
    Check(cudaEventRecord(end_));
    Check(cudaEventSynchronize(end_));
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin_, end_));
    return ms;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double Median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2];
}

// The information about a run that a line has in addition to the figures.
struct Provenance {
  std::string device;
  std::string commit = "unknown";
  std::string date = "unknown";
  std::string driver = "unknown";
};

void PrintFigure(const char* key, double value, int digits) {
  if (value > 0) {
    std::printf(", \"%s\": %.*f", key, digits, value);
  } else {
    std::printf(", \"%s\": null", key);
  }
}

// Races an algorithm, prints its line, and returns the published form's share of the ceiling; 0 for the
// production kernel, which has no published form.
double RaceAndPrint(Algorithm algorithm, const Memory& m, int count, const Provenance& provenance,
                    Stopwatch& stopwatch) {
  const auto published = PublishedForms().find(algorithm);
  const bool has_published = published != PublishedForms().end();
  const double bytes = 4.0 * count;
  std::vector<std::function<void()>> contenders = {[&] { CallOurs(algorithm, true, m, count); },
                                                   [&] { CallOurs(algorithm, false, m, count); }};
  if (has_published) contenders.push_back([&] { published->second.call(m, count); });
  const std::size_t first_ceiling = contenders.size();
  for (const Contender& ceiling : ReadCeilings(static_cast<std::size_t>(bytes), nullptr)) {
    contenders.push_back([ceiling, &m] { ceiling.call(reinterpret_cast<const std::byte*>(m.data)); });
  }

  constexpr int kRounds = 15;
  std::vector<std::vector<double>> ms(contenders.size());
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      const std::size_t i = (turn + static_cast<std::size_t>(round + 1)) % contenders.size();
      const double took = stopwatch.Ms(contenders[i]);
      if (round >= 0) ms[i].push_back(took);
    }
  }
  std::vector<double> gbps;
  for (const std::vector<double>& samples : ms) gbps.push_back(bytes / Median(samples) / 1e6);

  const double of_published = has_published ? gbps[2] : 0;
  const double ceiling = *std::max_element(gbps.begin() + first_ceiling, gbps.end());
  std::printf("{\"bench\": \"textbook\", \"algorithm\": \"%s\"", kernels::AlgorithmName(algorithm));
  if (has_published) std::printf(", \"published\": \"%s\"", published->second.name);
  std::printf(", \"operator\": \"sum\", \"dtype\": \"int32\", \"bytes\": %.0f", bytes);
  PrintFigure("gbps", gbps[0], 1);
  PrintFigure("wide_gbps", gbps[1], 1);
  PrintFigure("published_gbps", of_published, 1);
  PrintFigure("ceiling_gbps", ceiling, 1);
  PrintFigure("ratio", has_published ? gbps[0] / of_published : 0, 3);
  PrintFigure("to_ceiling", gbps[0] / ceiling, 3);
  PrintFigure("published_to_ceiling", of_published / ceiling, 3);
  std::printf(", \"date\": \"%s\", \"commit\": \"%s\", \"device\": \"%s\", \"driver\": \"%s\"}\n",
              provenance.date.c_str(), provenance.commit.c_str(), provenance.device.c_str(),
              provenance.driver.c_str());
  std::fflush(stdout);
  return of_published / ceiling;
}

void Run(std::size_t mib, Provenance provenance) {
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0));
  provenance.device = properties.name;
  const std::size_t elements = mib << 18;
  const Memory m(elements);
  std::vector<int> host(elements);
  std::uint32_t state = 1;
  for (int& x : host) x = static_cast<int>(state = state * 1664525 + 1013904223);
  Check(cudaMemcpy(m.data, host.data(), elements * sizeof(int), cudaMemcpyHostToDevice));
  CheckAll(m, host);
  Stopwatch stopwatch;
  double of_ceiling = 1;
  for (int i = 0; i < kernels::kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    // One block reads so slowly that a sixteenth shows as much.
    const auto count = static_cast<int>(IsOfOneBlock(algorithm) ? elements / 16 : elements);
    const double share = RaceAndPrint(algorithm, m, count, provenance, stopwatch);
    if (algorithm == Algorithm::kLastBlock) of_ceiling = share;
  }
  if (mib >= kMibForCeiling && of_ceiling < kMinOfCeiling) {
    std::fprintf(stderr, "the published last block has %.2f of the ceiling, where %.2f is the least\n",
                 of_ceiling, kMinOfCeiling);
    std::exit(1);
  }
}

}  // namespace
}  // namespace warpfold::benchmarks

int main(int argc, char** argv) {
  const long mib = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1024;
  if ((argc > 2 && argc != 5) || mib < 16 || mib > 4096 || (mib & (mib - 1)) != 0) {
    std::fprintf(stderr, "%s [MIB, a power of 2 from 16 to 4096 [COMMIT DATE DRIVER]]\n", argv[0]);
    return 2;
  }
  warpfold::benchmarks::Provenance provenance;
  if (argc == 5) {
    provenance.commit = argv[2];
    provenance.date = argv[3];
    provenance.driver = argv[4];
  }
  warpfold::benchmarks::Run(static_cast<std::size_t>(mib), provenance);
}
