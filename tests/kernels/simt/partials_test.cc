// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the partials of the longest ranges fit in the memory that DeviceReducer has for them, together with
// the states into which the last block folds them (fold.cuh): for the blocks of every operator's kernel,
// slots and GPUs of many sizes, and ranges that begin and end anywhere. Nothing is launched.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/leaf/end_leaves.cuh"
#include "kernels/cuda/leaf/ordered_leaves.cuh"
#include "kernels/cuda/leaf/warp_leaves.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/units.cuh"
#include "kernels/operators/lists.h"
#include "kernels/operators/operator_list.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::simt {
namespace {

// The properties of a kernel that decide how many states there are.
struct KernelShape {
  std::string name;
  ReductionSpec spec;
  std::uint32_t warps = 1;
  std::uint32_t largest_level = 0;  // of a warp's run
  bool is_exact = false;            // no more units than resident blocks (exact_kernel.cuh)
  std::uint32_t blocks_per_multiprocessor = 1;
  std::size_t state_bytes = 0;
  // Of NodeFolder; 0 for WarpFolder, which folds states where they are.
  std::uint32_t shared_states = 0;
};

template <class Leaves>
void UseLeaves(KernelShape& shape) {
  shape.warps = Leaves::kWarps;
  shape.largest_level = Leaves::kLargestLevel;
  shape.blocks_per_multiprocessor = Leaves::kBlocksPerMultiprocessor;
}

template <class Op>
KernelShape ShapeOf(ElementType type, bool ignore_nan, ElementShape elements) {
  KernelShape shape;
  shape.name = absl::StrCat(Op::kName, " ", ElementTypeName(type), ignore_nan ? " ignoring NaN" : "");
  shape.spec.operators = {Op::kName};
  shape.spec.element_type = type;
  shape.spec.shape = elements;
  shape.spec.ignore_nan = ignore_nan;
  shape.state_bytes = sizeof(typename Op::State);
  if constexpr (std::is_same_v<FolderFor<Op, TakesModulus<Op>>, NodeFolder<Op>>) {
    shape.shared_states = NodeFolder<Op>::kSharedStates;
  }
  if constexpr (AccumulatingOperator<Op>) {
    shape.warps = kExactTuning.warps;
    shape.largest_level = kExactTuning.largest_level;
    shape.blocks_per_multiprocessor = kExactTuning.blocks;
    shape.is_exact = true;
  } else if constexpr (EndOperator<Op>) {
    UseLeaves<EndLeaves<Op>>(shape);  // if nothing is skipped there are no partials at all (ends.h)
  } else if constexpr (Op::kCommutative) {
    UseLeaves<WarpLeaves<Op>>(shape);
  } else {
    UseLeaves<OrderedLeaves<Op>>(shape);
  }
  return shape;
}

template <template <class, bool> class Family>
void AddShapes(ScalarFamily<Family>, std::vector<KernelShape>* shapes) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    const ElementType type = ElementTypeAt(kType);
    if constexpr (kSupports<Family, T, false>) shapes->push_back(ShapeOf<Family<T, false>>(type, false, {}));
    if constexpr (kSupports<Family, T, true>) shapes->push_back(ShapeOf<Family<T, true>>(type, true, {}));
  });
}
template <template <class> class Family>
void AddShapes(PairFamily<Family>, std::vector<KernelShape>* shapes) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T>) {
      shapes->push_back(ShapeOf<Family<T>>(ElementTypeAt(kType), false, {1, 2}));
    }
  });
}
// Matrices of up to 2 x 2; larger ones have a separate plan (tree_schedule_test.cc).
template <template <class, int> class Family>
void AddShapes(MatrixFamily<Family>, std::vector<KernelShape>* shapes) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (kSupportsMatrix<Family, T, 2>) {
      shapes->push_back(ShapeOf<Family<T, 1>>(ElementTypeAt(kType), false, {1, 1}));
      shapes->push_back(ShapeOf<Family<T, 2>>(ElementTypeAt(kType), false, {2, 2}));
    }
  });
}

std::vector<KernelShape> AllShapes() {
  std::vector<KernelShape> shapes;
  ForEachType(OperatorList(), [&]<class Family, int>() { AddShapes(Family(), &shapes); });
  return shapes;
}

// The state up to which NodeFolder writes, counted from where its `spare` begins, in folds of this many nodes
// each.
std::uint64_t SpareStates(std::uint32_t shared_states, std::initializer_list<std::uint64_t> folds) {
  if (shared_states == 0) return 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  for (std::uint64_t nodes : folds) {
    bool in_shared_memory = false;
    while (!in_shared_memory && nodes > kFewNodes) {
      nodes /= 4;
      in_shared_memory = nodes <= shared_states;
      begin += nodes;
      if (!in_shared_memory) end = begin;
    }
  }
  return end;
}

// How many states such a range has in all.
std::uint64_t StatesOf(const KernelShape& shape, const Range& range, std::uint64_t leaf_elements,
                       std::uint32_t multiprocessors) {
  UnitPlan plan;
  plan.left_edge = range.leaf_count;
  if (range.leaf_count > shape.warps || shape.is_exact) {
    const std::uint32_t level = Log2(shape.warps);
    const std::uint64_t resident = std::uint64_t{multiprocessors} * shape.blocks_per_multiprocessor;
    plan = PlanUnits(range, leaf_elements, level, level + shape.largest_level, resident,
                     shape.is_exact ? resident : kManyUnits);
  }
  return plan.edge_leaves() + plan.units + 1 +
         SpareStates(shape.shared_states, {plan.left_edge, plan.right_edge, plan.units + 1});
}

// Leaf counts up to `most`: the last ones, those at which units become larger, and any others.
std::vector<std::uint64_t> LeafCounts(std::uint64_t most, std::mt19937_64& random) {
  std::vector<std::uint64_t> counts;
  for (std::uint64_t less = 0; less < 8 && less < most; ++less) counts.push_back(most - less);
  for (int level = 2; level < 30; ++level) {
    for (const std::uint64_t more : {0, 1, 2, 3, 4}) counts.push_back((kManyUnits << level) - 1 + more);
  }
  for (int i = 0; i < 20; ++i) counts.push_back(1 + random() % most);
  std::erase_if(counts, [most](std::uint64_t count) { return count > most; });
  return counts;
}

// For leaf counts, first leaves and a last leaf that may be short: the range with the most states.
void CheckShape(const KernelShape& shape, std::size_t slot_bytes, std::uint32_t multiprocessors,
                const DeviceReducer& reducer, std::mt19937_64& random) {
  const ReductionPlan reduction = ReductionPlan::Create(shape.spec).value();
  const std::uint64_t leaf = reduction.leaf_elements();
  const std::uint64_t room = reducer.partial_bytes() / shape.state_bytes;
  for (const std::uint64_t leaf_count : LeafCounts(reducer.Capacity(reduction) / leaf, random)) {
    for (const std::uint64_t first_leaf :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5}, random() >> 20}) {
      for (const std::uint64_t short_by : {0, 1}) {
        Range range;
        range.first_leaf = first_leaf;
        range.leaf_count = leaf_count;
        range.element_count = leaf_count * leaf - short_by;
        if (range.element_count == 0) continue;
        ASSERT_LE(StatesOf(shape, range, leaf, multiprocessors), room)
            << shape.name << ", slots of " << slot_bytes << " bytes, " << multiprocessors
            << " multiprocessors, " << leaf_count << " leaves from " << first_leaf << " on";
      }
    }
  }
}

TEST(PartialsTest, OfTheLongestRangesFit) {
  Device device(0);
  const UseDevice use(device);
  std::mt19937_64 random(5);
  const std::vector<KernelShape> shapes = AllShapes();
  for (const std::size_t slot_bytes : {std::size_t{64} << 10, std::size_t{384} << 10, std::size_t{832} << 10,
                                       std::size_t{1} << 20, std::size_t{5} << 20, std::size_t{16} << 20}) {
    for (const std::uint32_t multiprocessors : {1u, 4u, 31u, 32u, 46u, 132u, 188u}) {
      const auto reducer = DeviceReducer::Create(slot_bytes, multiprocessors).value();
      for (const KernelShape& shape : shapes) {
        ASSERT_NO_FATAL_FAILURE(CheckShape(shape, slot_bytes, multiprocessors, *reducer, random));
      }
    }
  }
}

// The longest range needs most of the memory: otherwise longer ones could be taken.
TEST(PartialsTest, NearlyFillTheirMemory) {
  Device device(0);
  const UseDevice use(device);
  const auto reducer = DeviceReducer::Create(std::size_t{384} << 10, 132).value();
  const KernelShape shape = ShapeOf<MaxSubarraySum<std::int64_t, false>>(ElementType::kInt64, false, {});
  const ReductionPlan reduction = ReductionPlan::Create(shape.spec).value();
  const std::uint64_t leaf = reduction.leaf_elements();
  Range range;
  range.first_leaf = 1;
  range.element_count = reducer->Capacity(reduction);
  range.leaf_count = range.element_count / leaf;
  const std::uint64_t room = reducer->partial_bytes() / shape.state_bytes;
  EXPECT_GT(StatesOf(shape, range, leaf, 132), room * 9 / 10);
}

}  // namespace
}  // namespace warpfold::kernels::simt
