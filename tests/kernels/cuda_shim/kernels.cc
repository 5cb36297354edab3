// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions of the CPU backend replace the kernels, because they compute the same states. There are rows for
// a few operators. Each function that launches counts as one call, under its own name.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cuda/gather.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/textbook/launch.h"
#include "kernels/operators/operator_list.h"
#include "kernels/operators/rows.h"
#include "kernels/partial_state.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {
namespace {

using Served = TypeList<ScalarFamily<Sum>, ScalarFamily<Argmin>, ScalarFamily<MaxSubarraySum>>;

template <class Family, class... Families>
constexpr int PlaceOf(TypeList<Families...>) {
  int place = 0;
  static_cast<void>(((std::is_same_v<Family, Families> || (++place, false)) || ...));
  return place;
}

template <class Family>
const cpu::Row& CpuRow() {
  return *cpu::BestInstructionSet().rows[PlaceOf<Family>(OperatorList())];
}

// Tickets wrap by themselves, so that every launch finds them at 0.
void CheckTickets(const unsigned* tickets) {
  if (*tickets != 0) Shim::Get().Misuse("tickets are not 0");
}

template <class Family, int kType, int kIgnoreNan>
cudaError_t LaunchReduction(const OperatorParameters& parameters, const Range& range,
                            const Workspace& workspace, cudaStream_t stream) {
  constexpr std::size_t kBytes = kElementTypes[kType].bytes;
  const auto work = [=] {
    CheckTickets(workspace.tickets);
    const std::byte* data = range.data;
    std::byte* out = workspace.nodes;
    std::uint64_t rest = range.element_count;
    for (const NodePosition node : MaximalSubtrees(range.first_leaf, range.leaf_count)) {
      const std::uint64_t elements = std::min(rest, LeafElements(kBytes) << node.level);
      const std::uint64_t first = (node.index << node.level) * LeafElements(kBytes);
      CpuRow<Family>().scalar[kType][kIgnoreNan](parameters, 1, data, elements, first, out);
      data += elements * kBytes;
      out += workspace.node_stride;
      rest -= elements;
    }
  };
  return Shim::Get().Launch("LaunchReduction", stream, range.data, range.element_count * kBytes, work);
}

// Like the algorithms with a cooperative launch, which returns its error and does not ask for the last one.
template <class Family, int kType>
cudaError_t LaunchTextbook(const OperatorParameters& parameters, const textbook::Section& section,
                           const Workspace& workspace, cudaStream_t stream) {
  constexpr std::size_t kBytes = kElementTypes[kType].bytes;
  const auto work = [=] {
    CpuRow<Family>().scalar[kType][0](parameters, 1, section.data, section.element_count,
                                      section.first_element, workspace.nodes);
  };
  return Shim::Get().LaunchByFunction("LaunchTextbook", stream, section.data, section.element_count * kBytes,
                                      work);
}

// The items of a plan, if there are any: what is not in them is not reduced.
std::vector<SegmentItem> ItemsOf(const SegmentPlan& plan) {
  if (plan.items != nullptr) return {plan.items, plan.items + plan.item_count};
  std::vector<SegmentItem> items(plan.segment_count);
  for (std::uint32_t segment = 0; segment < plan.segment_count; ++segment) {
    items[segment] = {.segment = segment, .count = 1, .run = 0, .first_run = 0};
  }
  return items;
}

template <class Family, int kKind>
cudaError_t LaunchSegments(const OperatorParameters& parameters, const SegmentPlan& plan,
                           const SegmentWork& work, cudaStream_t stream) {
  constexpr bool kIgnoresNan = kKind == static_cast<int>(WideKind::kFloatIgnoringNan);
  const auto reduce = [=] {
    CheckTickets(work.tickets);
    for (const SegmentItem& item : ItemsOf(plan)) {
      if (item.count == 0 && item.run > 0) continue;  // the first run stands for its segment
      for (std::uint64_t i = item.segment; i < item.segment + std::max(item.count, 1u); ++i) {
        const std::uint64_t begin = plan.offsets == nullptr ? i * plan.length : plan.offsets[i];
        const std::uint64_t length = plan.offsets == nullptr ? plan.length : plan.offsets[i + 1] - begin;
        const cpu::CpuSegments one = {
            .data = plan.data + (begin << plan.element_shift), .begin = i, .end = i + 1, .length = length};
        const auto function = CpuRow<Family>().segments[IndexOf(plan.type)][kIgnoresNan];
        if (!function(parameters, one, work.out)) *work.has_errors = 1;
      }
    }
  };
  return Shim::Get().Launch("LaunchSegments", stream, plan.data, 1, reduce);
}

template <class Family, int kType>
constexpr textbook::LaunchersByOverflow TextbookLaunchers() {
  textbook::LaunchersByOverflow launchers = {};
  launchers.wide.fill(LaunchTextbook<Family, kType>);
  return launchers;
}
template <class Family, int kType>
constexpr textbook::LaunchersByOverflow kTextbookLaunchers = TextbookLaunchers<Family, kType>();

template <class Family>
const Row* RowOf() {
  static constexpr Row kRow = [] {
    Row row;
    ForEachType(ElementTypes(), [&]<class T, int kType>() {
      row.scalar[kType] = {LaunchReduction<Family, kType, 0>, LaunchReduction<Family, kType, 1>};
    });
    return row;
  }();
  return &kRow;
}

template <class Family>
const textbook::Row* TextbookRowOf() {
  static constexpr textbook::Row kRow = [] {
    textbook::Row row;
    ForEachType(ElementTypes(),
                [&]<class T, int kType>() { row.scalar[kType][0] = &kTextbookLaunchers<Family, kType>; });
    return row;
  }();
  return &kRow;
}

// As on a GPU, sums have registers, and max_subarray_sum has separate leaves over integers.
template <class Family, int kKind>
constexpr SegmentEntry SegmentEntryOf() {
  constexpr bool kIsOrdered = std::is_same_v<Family, ScalarFamily<MaxSubarraySum>>;
  constexpr bool kIsInteger = kKind < static_cast<int>(WideKind::kFloat);
  return {.launch = LaunchSegments<Family, kKind>,
          .state_bytes = 64,
          .leaf_elements = kIsOrdered && kIsInteger ? kLeafBytes / sizeof(std::uint64_t) : 0,
          .has_registers = std::is_same_v<Family, ScalarFamily<Sum>>};
}

template <class Family>
const SegmentFunctionRow* SegmentRowOf() {
  static constexpr SegmentFunctionRow kRow = {SegmentEntryOf<Family, 0>(), SegmentEntryOf<Family, 1>(),
                                              SegmentEntryOf<Family, 2>(), SegmentEntryOf<Family, 3>()};
  return &kRow;
}

}  // namespace

std::span<const Row* const> Rows() {
  static const auto rows =
      RowsOfSome<Row>(OperatorList(), Served(), []<class Family>() { return RowOf<Family>(); });
  return rows;
}

std::span<const SegmentFunctionRow* const> SegmentRows() {
  static const auto rows = RowsOfSome<SegmentFunctionRow>(
      OperatorList(), Served(), []<class Family>() { return SegmentRowOf<Family>(); });
  return rows;
}

namespace textbook {

std::span<const Row* const> Rows() {
  static const auto rows =
      RowsOfSome<Row>(OperatorList(), Served(), []<class Family>() { return TextbookRowOf<Family>(); });
  return rows;
}

}  // namespace textbook

cudaError_t LaunchGather(const Tile* tiles, std::size_t tile_count, std::byte* target, cudaStream_t stream) {
  const auto work = [=] {
    for (const Tile& tile : std::span(tiles, tile_count)) {
      std::memcpy(target + tile.to, tile.from, tile.byte_count);
    }
  };
  return Shim::Get().Launch("LaunchGather", stream, tiles, tile_count * sizeof(Tile), work);
}

// Asks for the attributes of a kernel, which is not a launch.
cudaError_t FindKernels() {
  return Shim::Get().Call("FindKernels", {}, [] { return cudaSuccess; });
}

}  // namespace warpfold::kernels::shim
