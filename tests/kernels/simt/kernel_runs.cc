// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/simt/kernel_runs.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/algorithm.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/leaf/ordered_leaves.cuh"
#include "kernels/cuda/matrix/entrywise_kernel.cuh"
#include "kernels/cuda/textbook/warp_shared.cuh"
#include "kernels/cuda/textbook/warp_shared_once.cuh"
#include "kernels/cuda/textbook/warp_shared_ordered.cuh"
#include "kernels/cuda/textbook/warp_shared_padded.cuh"
#include "kernels/cuda/units.cuh"
#include "kernels/operators/max_subarray_sum.h"
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

// Different elements for each seed: the results that an earlier run left must not pass for those of this one.
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

// A warp's fold promises its result to every lane, and that the cells may be used again: the textbook's
// kernels use only lane 0's.
template <class Fold>
__global__ void FoldTwiceKernel(const std::uint32_t* in, std::uint64_t* out) {
  using State = typename Sum<std::uint32_t, false>::State;
  const Sum<std::uint32_t, false> op;
  State* const cells = textbook::SharedCells<State, Fold::kCells>();
  for (int cell = threadIdx.x; cell < Fold::kCells; cell += kLanes) cells[cell] = op.Identity();
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

// Only the end of a reduction: more nodes than there are in ranges that are short enough to be folded here.
template <class Op>
__global__ void FoldKernel(Range range, UnitPlan plan, Workspace workspace) {
  auto* const edges = reinterpret_cast<typename Op::State*>(workspace.partials);
  FoldPartials<FolderFor<Op, TakesModulus<Op>>>(Op(), range, plan, workspace, edges);
}

// The state of a subtree, from the states of edge leaves and units below it.
template <class Op>
typename Op::State StateOf(const UnitPlan& plan, std::uint64_t first_leaf, NodePosition node,
                           const std::vector<typename Op::State>& partials) {
  const std::uint64_t unit = node.index - plan.first_unit;
  if (node.level == plan.unit_level && node.index >= plan.first_unit && unit < plan.units) {
    return partials[plan.edge_leaves() + unit];
  }
  if (node.level == 0) {
    const std::uint64_t leaf = node.index - first_leaf;
    return partials[leaf < plan.left_edge ? leaf : leaf - (std::uint64_t{plan.units} << plan.unit_level)];
  }
  const NodePosition left = {node.level - 1, 2 * node.index};
  const NodePosition right = {node.level - 1, 2 * node.index + 1};
  return Op().Combine(StateOf<Op>(plan, first_leaf, left, partials),
                      StateOf<Op>(plan, first_leaf, right, partials));
}

// Folds partials of this plan, with units of four leaves from leaf 1 on, which is the second of its unit.
template <class Op>
KernelRuns::Function Folds(std::uint32_t units, std::uint64_t right_edge) {
  using State = typename Op::State;
  UnitPlan plan;
  plan.unit_level = 2;
  plan.left_edge = 3;
  plan.first_unit = 1;
  plan.units = units;
  plan.right_edge = right_edge;
  Range range;
  range.first_leaf = 1;
  range.leaf_count = plan.edge_leaves() + (std::uint64_t{units} << plan.unit_level);
  return [=](KernelRuns::Bench& bench, std::uint64_t seed) -> std::string {
    Random random(seed + 1);
    std::vector<State> partials(2 * (plan.edge_leaves() + units) + 1);  // and what they become
    for (std::size_t i = 0; i < partials.size(); ++i) {
      const auto element = static_cast<typename Op::Element>(random() % 1000 - 500);
      partials[i] = Op().Widen(Op().Lift(element, 0), 512 * i);
    }
    const std::vector<State> kept = partials;
    const std::vector<NodePosition> nodes = MaximalSubtrees(range.first_leaf, range.leaf_count);
    std::vector<State> folded(nodes.size());
    Workspace workspace;
    workspace.partials = reinterpret_cast<std::byte*>(partials.data());
    workspace.nodes = reinterpret_cast<std::byte*>(folded.data());
    workspace.node_stride = sizeof(State);
    workspace.node_count = static_cast<std::uint32_t>(nodes.size());
    constexpr unsigned kThreads = 128;
    if (LaunchKernel<FoldKernel<Op>>({1, kThreads}, &bench.device, range, plan, workspace) != cudaSuccess) {
      return bench.device.failure();
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const State expected = StateOf<Op>(plan, range.first_leaf, nodes[i], kept);
      if (std::memcmp(&folded[i], &expected, sizeof expected) != 0) return "wrong result";
    }
    return "";
  };
}

// A warp's run of several leaves: in ranges that are short enough to be reduced here, runs have one leaf.
template <class Op>
__global__ void RunKernel(Range range, std::uint32_t level, typename Op::State* out) {
  OrderedLeaves<Op> leaves(Op(), range);
  leaves.Prefetch(0);
  const auto state = leaves.FoldRun(0, level, kNoLeaf);
  if (threadIdx.x == 0) *out = state;
}

template <class Op>
KernelRuns::Function FoldsARun(const ReductionSpec& spec) {
  return [=, reduction = ReductionPlan::Create(spec).value()](KernelRuns::Bench& bench,
                                                              std::uint64_t seed) -> std::string {
    constexpr std::uint32_t kLevel = 2;
    const std::vector<std::byte> data = ElementsOf(spec, reduction.leaf_elements() << kLevel, seed);
    Range range;
    range.data = data.data();
    range.element_count = reduction.leaf_elements() << kLevel;
    range.leaf_count = std::uint64_t{1} << kLevel;
    typename Op::State state;
    if (LaunchKernel<RunKernel<Op>>({1, kLanes}, &bench.device, range, kLevel, &state) != cudaSuccess) {
      return bench.device.failure();
    }
    const PartialState expected = ReduceOnHost(reduction, 0, data);
    const auto bytes = std::as_bytes(std::span(&state, 1));
    return std::ranges::equal(OperatorState(expected, 0, 0), bytes) ? "" : "wrong result";
  };
}

// Matrices entry by entry, reduced by one block that draws one task after the other: in ranges that are short
// enough to be reduced here every block has one task. The range is three units of 16 leaves, without the
// first leaf and the last two, so that the first and the last unit are folded piece by piece.
template <class Op>
KernelRuns::Function FoldsEntries(const ReductionSpec& spec) {
  using State = typename Op::State;
  constexpr std::uint64_t kFirstLeaf = 1;
  constexpr std::uint64_t kLeaves = 45;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const std::uint64_t count = kLeaves * reduction.leaf_elements();
  const std::uint32_t entries = spec.shape.entries();
  EntrywisePlan plan = PlanEntrywise(entries, sizeof(typename Op::Element), kFirstLeaf, count, /*blocks=*/1);
  plan.tree = PlanTree(kFirstLeaf, count, reduction.element_bytes(), /*unit_level=*/4, /*group_level=*/2,
                       plan.tree.parts);
  return [=](KernelRuns::Bench& bench, std::uint64_t seed) -> std::string {
    const std::vector<std::byte> data = ElementsOf(spec, count, seed);
    Range range;
    range.data = data.data();
    range.element_count = count;
    range.first_leaf = kFirstLeaf;
    range.leaf_count = kLeaves;
    range.entries = entries;
    std::vector<State> partials(4 * entries);
    std::vector<unsigned> tickets(16);
    const std::size_t nodes = MaximalSubtrees(kFirstLeaf, kLeaves).size();
    std::vector<State> folded(nodes * entries);
    Workspace workspace;
    workspace.partials = reinterpret_cast<std::byte*>(partials.data());
    workspace.tickets = tickets.data();
    workspace.nodes = reinterpret_cast<std::byte*>(folded.data());
    workspace.node_stride = entries * sizeof(State);
    workspace.node_count = static_cast<std::uint32_t>(nodes);
    if (LaunchKernel<EntrywiseKernel<Op>>({1, kEntrywiseThreads}, &bench.device, OperatorParameters(), range,
                                          plan, workspace) != cudaSuccess) {
      return bench.device.failure();
    }
    const PartialState expected = ReduceOnHost(reduction, kFirstLeaf * reduction.leaf_elements(), data);
    for (std::size_t i = 0; i < nodes; ++i) {
      const auto node = std::as_bytes(std::span(folded).subspan(i * entries, entries));
      if (!std::ranges::equal(OperatorState(expected, i, 0), node)) return "wrong result";
    }
    return "";
  };
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
    // States of 32 bytes, for which some algorithms have a separate way.
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
  using LargeStates = MaxSubarraySum<std::int64_t, false>;
  using SmallStates = Sum<std::int64_t, false>;
  // In pairs, in fours whose results fit in shared memory, in fours whose results do not.
  add("90 large states", Folds<LargeStates>(90, 4));
  add("150 large states", Folds<LargeStates>(150, 0));
  add("701 large states", Folds<LargeStates>(701, 4));
  // In groups of 32, whose results are folded in the same way.
  add("90 small states", Folds<SmallStates>(90, 4));
  add("3,100 small states", Folds<SmallStates>(3100, 4));
  add("ordered leaves of a run", FoldsARun<LargeStates>(SpecOf("max_subarray_sum", ElementType::kInt64)));
  add("entry by entry", Reduces(SpecOf("sum", ElementType::kInt32, {3, 3}), 1500));
  using FloatSum = Sum<float, false>;
  add("9 entries, several tasks", FoldsEntries<FloatSum>(SpecOf("sum", ElementType::kFloat32, {3, 3})));
  // More entries than a part has, so that a thread has an entry to itself and joins no stretches.
  add("300 entries, several tasks", FoldsEntries<FloatSum>(SpecOf("sum", ElementType::kFloat32, {15, 20})));
  return all;
}

}  // namespace warpfold::kernels::simt
