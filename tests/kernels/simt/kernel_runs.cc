// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/simt/kernel_runs.h"

#include <utility>

#include "kernels/algorithm.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/textbook/warp_shared.cuh"
#include "kernels/cuda/textbook/warp_shared_once.cuh"
#include "kernels/cuda/textbook/warp_shared_ordered.cuh"
#include "kernels/cuda/textbook/warp_shared_padded.cuh"
#include "kernels/operators/sum.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels::simt {
namespace {

constexpr std::size_t kArrayBytes = 64 << 10;

ReductionSpec SpecOf(const std::string& op, ElementType type, ElementShape shape = {},
                     Algorithm algorithm = Algorithm::kAuto) {
  ReductionSpec spec;
  spec.operators = {op};
  spec.element_type = type;
  spec.shape = shape;
  spec.algorithm = algorithm;
  return spec;
}

// Other elements for each seed: what a run before this one left is not what this one should.
std::vector<std::byte> ElementsOf(const ReductionSpec& spec, std::uint64_t count, std::uint64_t seed) {
  Random random(seed + 1);
  std::vector<std::byte> data =
      RandomElements(spec.element_type, count * spec.shape.entries(), Flavour::kTame, random);
  if (spec.operators[0] == "matrix_product") MakeUnitLike(spec.element_type, spec.shape.rows, data);
  return data;
}

KernelRuns::Function Reduces(const ReductionSpec& spec, std::uint64_t count) {
  ReductionSpec canonical_spec = spec;
  canonical_spec.algorithm = Algorithm::kAuto;
  return [=, reduction = ReductionPlan::Create(spec).value(),
          canonical = ReductionPlan::Create(canonical_spec).value()](KernelRuns::Bench& bench,
                                                                     std::uint64_t seed) -> std::string {
    const std::vector<std::byte> data = ElementsOf(spec, count, seed);
    const absl::Status status = bench.reducer->Launch(reduction, 0, data.data(), count, &bench.device);
    if (!status.ok()) return std::string(status.message());
    const bool is_right =
        Describe(bench.reducer->Collect().Finish(0)) == Describe(ReduceOnHost(canonical, 0, data).Finish(0));
    return is_right ? "" : "wrong result";
  };
}

// A warp's fold promises its result to every lane, and that the cells may be used again: what the textbook's
// kernels take of that is lane 0's.
template <class Fold>
__global__ void FoldTwiceKernel(const std::uint32_t* in, std::uint64_t* out) {
  using State = typename Sum<std::uint32_t, false>::State;
  const Sum<std::uint32_t, false> op;
  State* const cells = textbook::SharedCells<State, Fold::kCells>();
  const State first = Fold::Fold(op, State{in[threadIdx.x]}, cells);
  const State second = Fold::Fold(op, first + in[threadIdx.x], cells);
  out[threadIdx.x] = static_cast<std::uint64_t>(second);
}

template <template <class> class Fold>
std::string FoldsTwice(KernelRuns::Bench& bench, std::uint64_t seed) {
  std::uint32_t data[kLanes];
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < kLanes; ++i)
    sum += data[i] = static_cast<std::uint32_t>((i + 1) * (seed + 1));
  auto* const out = reinterpret_cast<std::uint64_t*>(bench.scratch);
  constexpr auto kKernel = FoldTwiceKernel<Fold<typename Sum<std::uint32_t, false>::State>>;
  if (LaunchKernel<kKernel>({1, kLanes}, &bench.device, &data[0], out) != cudaSuccess) {
    return bench.device.failure();
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if (out[lane] != (kLanes + 1) * sum) return "wrong result";
  }
  return "";
}

}  // namespace

KernelRuns::Bench::Bench() {
  const UseDevice use(device);
  reducer = DeviceReducer::Create(kArrayBytes).value();
  scratch = device.Allocate(kScratchBytes);
}
KernelRuns::Bench::~Bench() = default;

KernelRuns::KernelRuns(std::string name, Function function)
    : name_(std::move(name)), function_(std::move(function)), bench_(std::make_unique<Bench>()) {}

std::string KernelRuns::Run(std::uint64_t seed, const Site* removed) {
  bench_->device.Restart(seed);
  bench_->device.Scramble();
  bench_->device.Remove(removed);
  std::string wrong;
  {
    const UseDevice use(bench_->device);
    wrong = function_(*bench_, seed);
  }
  bench_->device.Remove(nullptr);
  if (!wrong.empty()) bench_ = std::make_unique<Bench>();
  return wrong;
}

std::set<Site> KernelRuns::Sites() {
  std::set<Site> sites;
  bench_->device.NoteSites(&sites);
  Run(1);
  bench_->device.NoteSites(nullptr);
  return sites;
}

std::vector<std::unique_ptr<KernelRuns>> AllKernelRuns() {
  std::vector<std::unique_ptr<KernelRuns>> all;
  const auto add = [&](std::string name, KernelRuns::Function function) {
    all.push_back(std::make_unique<KernelRuns>(std::move(name), std::move(function)));
  };
  constexpr std::uint64_t kCount = 3001;
  for (int i = 1; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    const std::string name = AlgorithmName(algorithm);
    add(name, Reduces(SpecOf("sum", ElementType::kInt32, {}, algorithm), kCount));
    if (!KeepsOrder(algorithm)) continue;
    // States of 32 bytes, for which some have a way of their own.
    const ReductionSpec spec = SpecOf("matrix_product", ElementType::kInt64, {2, 2}, algorithm);
    add(name + " of matrices", Reduces(spec, kCount / 4));
  }
  add("warp_shared twice", FoldsTwice<textbook::WarpSharedFold>);
  add("warp_shared_once twice", FoldsTwice<textbook::WarpSharedOnceFold>);
  add("warp_shared_ordered twice", FoldsTwice<textbook::WarpSharedOrderedFold>);
  add("warp_shared_padded twice", FoldsTwice<textbook::WarpSharedPaddedFold>);
  add("a block alone", Reduces(SpecOf("sum", ElementType::kInt32), 7 * 1024 + 5));
  add("several blocks", Reduces(SpecOf("sum", ElementType::kInt64), 70 * 512 + 5));
  add("ordered leaves", Reduces(SpecOf("max_subarray_sum", ElementType::kInt32), 13 * 1024 + 5));
  add("matrices in order", Reduces(SpecOf("matrix_product", ElementType::kInt32, {2, 2}), 13 * 256 + 5));
  add("entry by entry", Reduces(SpecOf("sum", ElementType::kInt32, {3, 3}), 1500));
  return all;
}

}  // namespace warpfold::kernels::simt
