// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-textbook-bench: each kernel of the textbook beside its published form, in turns in one process, on
// sums of int32. Both answers must be those of a loop on the host before anything is timed. One JSON line for
// each pair: medians in GB/s, and how fast the textbook's is as a share of the published one.
//
//   warpfold-textbook-bench [MIB of the grids' array, 1024 by default]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/cuda/textbook/row_of.cuh"
#include "tests/benchmarks/textbook/published_blocks.cuh"
#include "tests/benchmarks/textbook/published_ladder.cuh"

namespace warpfold::benchmarks {
namespace {

using kernels::Algorithm;
using kernels::cuda::Workspace;
using kernels::cuda::textbook::kAllLaunchersOf;
using kernels::cuda::textbook::Section;
using Int32Sum = kernels::Sum<std::int32_t, false>;

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <class T>
T* Allocate(std::size_t count) {
  T* memory = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&memory), count * sizeof(T)));
  Check(cudaMemset(memory, 0, count * sizeof(T)));
  return memory;
}

// The device memory of both contenders.
struct Memory {
  explicit Memory(std::size_t elements) {
    workspace.partials = Allocate<std::byte>((elements / 16 + 16) * sizeof(Int32Sum::State));
    workspace.tickets = Allocate<unsigned>(1);
    workspace.nodes = Allocate<std::byte>(64);
    Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    workspace.multiprocessors = static_cast<unsigned>(multiprocessors);
    data = Allocate<int>(elements);
    partials = Allocate<int>(elements / 128 + 65536);
    out = Allocate<int>(1);
    counter = Allocate<int>(1);
  }
  int multiprocessors = 0;
  Workspace workspace;
  int* data;
  int* partials;
  int* out;
  int* counter;
};

using Call = std::function<void(const Memory&, int count)>;

struct Pair {
  Algorithm algorithm;
  const char* published;
  bool of_one_block;
  Call call;
};

Call Grid(void (*last_block)(const int*, int, int*, int*, int*)) {
  return [=](const Memory& m, int count) {
    Check(cudaMemsetAsync(m.counter, 0, sizeof(int)));
    last_block<<<2 * m.multiprocessors, published::kBlock>>>(m.data, count, m.partials, m.counter, m.out);
  };
}
Call OneBlock(void (*kernel)(const int*, int, int*)) {
  return [=](const Memory& m, int count) { kernel<<<1, published::kBlock>>>(m.data, count, m.out); };
}

void TwoLaunches(const Memory& m, int count) {
  const int blocks = 2 * m.multiprocessors;
  published::SumComm<<<blocks, published::kBlock>>>(m.data, count, m.partials);
  published::SumComm<<<1, published::kBlock>>>(m.partials, blocks, m.out);
}

// The rung on the array, then on its partials, until one is left.
template <int kRung>
void Rung(const Memory& m, int count) {
  constexpr unsigned kItems = published::kRungBlock * (kRung <= 2 ? 1 : 2);
  const int* in = m.data;
  int* partials = m.partials;
  for (auto left = static_cast<unsigned>(count);;) {
    unsigned blocks = (left + kItems - 1) / kItems;
    // The last rung has a grid of fixed size, and then one block.
    if (kRung == 6) blocks = in == m.data ? std::min(blocks, 8u * m.multiprocessors) : 1;
    published::Reduce<kRung><<<blocks, published::kRungBlock>>>(in, left, blocks == 1 ? m.out : partials);
    if (blocks == 1) return;
    in = partials;
    partials += blocks;
    left = blocks;
  }
}

std::vector<Pair> Pairs() {
  using A = Algorithm;
  return {{A::kSingleBlock, "sumCommSingleBlock", true, OneBlock(published::SumComm)},
          {A::kSingleBlockOrdered, "sumNoncommSingleBlock", true, OneBlock(published::SumNoncomm)},
          {A::kBlockOfWarps, "sumCommSingleBlockWithWarps", true, OneBlock(published::SumCommWithWarps)},
          {A::kTwoLaunch, "sumCommMultiBlock, two launches", false, TwoLaunches},
          {A::kLastBlock, "sumCommMultiBlock, last block", false, Grid(published::SumCommLastBlock)},
          {A::kLastBlockOrdered, "sumNoncommMultiBlock", false, Grid(published::SumNoncommLastBlock)},
          {A::kInterleavedModulo, "reduce0", false, Rung<0>},
          {A::kInterleavedStrided, "reduce1", false, Rung<1>},
          {A::kSequentialAddressing, "reduce2", false, Rung<2>},
          {A::kFirstAddOnLoad, "reduce3", false, Rung<3>},
          {A::kUnrolledWarp, "reduce5", false, Rung<5>},
          {A::kGridStride, "reduce6", false, Rung<6>}};
}

void CallTextbook(Algorithm algorithm, bool wrap, const Memory& m, int count) {
  const kernels::OperatorParameters parameters = {.wrap_overflow = wrap};
  const Section section = {reinterpret_cast<const std::byte*>(m.data), static_cast<std::uint64_t>(count), 0};
  Check(kAllLaunchersOf<Int32Sum>.For(algorithm, parameters)(parameters, section, m.workspace, nullptr));
}

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

// Every algorithm, with states as wide as the elements and with wide ones, and the published forms.
void CheckAll(const Memory& m, const std::vector<int>& host) {
  std::vector<int> counts = {1, 31, 33, 1023, 1025, 4097, (1 << 20) + 3};
  counts.push_back(static_cast<int>(host.size()));
  for (const int count : counts) {
    std::int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += host[i];
    const auto low = static_cast<std::int32_t>(sum);
    for (int i = 1; i < kernels::kAlgorithmCount; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      CallTextbook(algorithm, true, m, count);
      if (Fetch<std::int32_t>(m.workspace.nodes) != low) Fail(kernels::AlgorithmName(algorithm), count);
      CallTextbook(algorithm, false, m, count);
      if (Fetch<std::int64_t>(m.workspace.nodes) != sum) Fail(kernels::AlgorithmName(algorithm), count);
    }
    for (const Pair& pair : Pairs()) {
      Check(cudaMemset(m.out, 0, sizeof(int)));
      pair.call(m, count);
      if (Fetch<std::int32_t>(m.out) != low) Fail(pair.published, count);
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

void Race(const Pair& pair, const Memory& m, int count, Stopwatch& stopwatch) {
  const std::function<void()> contenders[] = {[&] { CallTextbook(pair.algorithm, true, m, count); },
                                              [&] { CallTextbook(pair.algorithm, false, m, count); },
                                              [&] { pair.call(m, count); }};
  constexpr int kRounds = 15;
  std::vector<double> ms[3];
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    for (int turn = 0; turn < 3; ++turn) {
      const int i = (turn + round + 3) % 3;
      const double took = stopwatch.Ms(contenders[i]);
      if (round >= 0) ms[i].push_back(took);
    }
  }
  const double bytes = 4.0 * count;
  const double ours = Median(ms[0]);
  const double wide = Median(ms[1]);
  const double published = Median(ms[2]);
  std::printf(
      "{\"bench\": \"textbook\", \"algorithm\": \"%s\", \"published\": \"%s\", \"operator\": \"sum\", "
      "\"dtype\": "
      "\"int32\", "
      "\"bytes\": %.0f, \"gbps\": %.1f, \"wide_gbps\": %.1f, \"published_gbps\": %.1f, \"ratio\": %.3f}\n",
      kernels::AlgorithmName(pair.algorithm), pair.published, bytes, bytes / ours / 1e6, bytes / wide / 1e6,
      bytes / published / 1e6, published / ours);
  std::fflush(stdout);
}

void Run(std::size_t mib) {
  const std::size_t elements = mib << 18;
  const Memory m(elements);
  std::vector<int> host(elements);
  std::uint32_t state = 1;
  for (int& x : host) x = static_cast<int>(state = state * 1664525 + 1013904223);
  Check(cudaMemcpy(m.data, host.data(), elements * sizeof(int), cudaMemcpyHostToDevice));
  CheckAll(m, host);
  Stopwatch stopwatch;
  // One block reads so slowly that a sixteenth says as much.
  for (const Pair& pair : Pairs()) {
    Race(pair, m, static_cast<int>(pair.of_one_block ? elements / 16 : elements), stopwatch);
  }
}

}  // namespace
}  // namespace warpfold::benchmarks

int main(int argc, char** argv) {
  const long mib = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1024;
  if (mib < 16 || mib > 4096) {
    std::fprintf(stderr, "an array of 16 to 4096 MiB\n");
    return 1;
  }
  warpfold::benchmarks::Run(static_cast<std::size_t>(mib));
}
