// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/segments/device_segment_reducer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/registration.h"
#include "kernels/cuda/segments/segment_items.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/table.h"

namespace warpfold::kernels::cuda {
namespace {

static_assert(sizeof(SegmentItem) == kSegmentItemBytes);

// The kind as which kernels read elements of each type, unless NaN are ignored.
constexpr auto kKindOfType = [] {
  std::array<WideKind, kElementTypeCount> kinds{};
  ForEachType(ElementTypes(), [&kinds]<class T, int kType>() {
    kinds[kType] = FloatElement<T> ? WideKind::kFloat
                   : kIsSigned<T>  ? WideKind::kSigned
                                   : WideKind::kUnsigned;
  });
  return kinds;
}();

WideKind KindOf(const ReductionSpec& spec) {
  const WideKind kind = kKindOfType[IndexOf(spec.element_type)];
  return kind == WideKind::kFloat && spec.ignore_nan ? WideKind::kFloatIgnoringNan : kind;
}

const SegmentEntry& EntryFor(const ReductionPlan& reduction, const BoundOperator& op) {
  return (*SegmentRows()[op.entry->family])[static_cast<int>(KindOf(reduction.spec()))];
}

std::uint32_t Log2Of(std::uint64_t power) { return static_cast<std::uint32_t>(std::countr_zero(power)); }

std::uint32_t LeafShift(const ReductionPlan& reduction, const SegmentEntry& entry) {
  return Log2Of(entry.leaf_elements != 0 ? entry.leaf_elements : reduction.leaf_elements());
}

SegmentPlan PlanFor(const ReductionPlan& reduction, const SegmentCut& cut, const std::byte* data) {
  SegmentPlan plan;
  plan.data = data;
  plan.type = reduction.spec().element_type;
  plan.element_shift = Log2Of(reduction.element_bytes());
  plan.segment_count = cut.segment_count;
  return plan;
}

// Whether kernels fold the segments in registers: they are whole vectors of elements that these kernels
// support. If most are shorter than kMinRegisterBytes, lanes would have nothing to do, and going through
// shared memory is faster. If lengths vary, all operators must support the elements, so that they share one
// plan: making its tables takes the host longer than a kernel gains.
bool AreForRegisters(const ReductionPlan& reduction, const SegmentCut& cut, std::uint64_t element_count,
                     const std::byte* data) {
  if (reduction.element_bytes() < 4 || reinterpret_cast<std::uintptr_t>(data) % kVectorBytes != 0) {
    return false;
  }
  if (element_count * reduction.element_bytes() < cut.segment_count * kMinRegisterBytes) return false;
  const std::uint64_t vector = kVectorBytes / reduction.element_bytes();
  if (cut.lengths.empty()) return cut.length % vector == 0;
  const auto has_registers = [&](const BoundOperator& op) { return EntryFor(reduction, op).has_registers; };
  if (!std::ranges::all_of(reduction.operators(), has_registers)) return false;
  return std::ranges::all_of(cut.lengths, [vector](std::uint64_t length) { return length % vector == 0; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSegmentReducer>> DeviceSegmentReducer::Create(
    std::size_t result_bytes, std::uint32_t multiprocessors, std::uint64_t most_runs) {
  std::unique_ptr<DeviceSegmentReducer> reducer(new DeviceSegmentReducer);
  reducer->result_bytes_ = result_bytes;
  reducer->most_runs_ = most_runs;
  const absl::Status allocated = reducer->Allocate(multiprocessors);
  return CompleteOrAbandon(std::move(reducer), allocated);
}

absl::Status DeviceSegmentReducer::Allocate(std::uint32_t multiprocessors) {
  int current = 0;
  int of_current = 0;
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaGetDevice(&current));
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&of_current, cudaDevAttrMultiProcessorCount, current));
  multiprocessors_ = multiprocessors > 0 ? multiprocessors : static_cast<std::uint32_t>(of_current);
  const auto device = [](auto** memory, std::size_t bytes) {
    return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
  };
  const auto pinned = [](auto** memory, std::size_t bytes, unsigned flags = cudaHostAllocDefault) {
    return cudaHostAlloc(reinterpret_cast<void**>(memory), bytes, flags);
  };
  const SegmentTables tables = TablesOfSegments(result_bytes_);
  WARPFOLD_RETURN_IF_CUDA_ERROR(device(&results_, result_bytes_));
  WARPFOLD_RETURN_IF_CUDA_ERROR(pinned(&host_results_, result_bytes_, cudaHostAllocMapped));
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaHostGetDevicePointer(reinterpret_cast<void**>(&mapped_results_), host_results_, 0));
  WARPFOLD_RETURN_IF_CUDA_ERROR(device(&partials_, kRunStateBytes));
  WARPFOLD_RETURN_IF_CUDA_ERROR(device(&tickets_, kMaxRuns * sizeof(unsigned)));
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemset(tickets_, 0, kMaxRuns * sizeof(unsigned)));
  WARPFOLD_RETURN_IF_CUDA_ERROR(device(&tables_, tables.offsets + tables.items));
  WARPFOLD_RETURN_IF_CUDA_ERROR(pinned(&host_tables_, tables.offsets + tables.items));
  WARPFOLD_RETURN_IF_CUDA_ERROR(pinned(&errors_, tables.errors, cudaHostAllocMapped));
  std::memset(errors_, 0, tables.errors);
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_errors_), errors_, 0));
  // The tickets are zeroed on the legacy stream, for which non-blocking streams do not wait.
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cudaStreamLegacy));
  return absl::OkStatus();
}

DeviceSegmentReducer::~DeviceSegmentReducer() {
  // Errors cannot be handled here: the process is ending, or the device is lost.
  for (void* memory : {static_cast<void*>(results_), static_cast<void*>(partials_),
                       static_cast<void*>(tickets_), static_cast<void*>(tables_)}) {
    cudaFree(memory);
  }
  for (void* memory :
       {static_cast<void*>(host_results_), static_cast<void*>(host_tables_), static_cast<void*>(errors_)}) {
    cudaFreeHost(memory);
  }
}

std::uint64_t DeviceSegmentReducer::CapacityOf(std::size_t result_bytes, const ReductionPlan& reduction) {
  // SegmentItem numbers segments with 32 bits.
  return std::min<std::uint64_t>(result_bytes / SegmentLayout(reduction).row_bytes(), UINT32_MAX);
}

absl::Status DeviceSegmentReducer::Launch(const ReductionPlan& reduction, const SegmentCut& cut,
                                          const std::byte* data, cudaStream_t stream, const Places& places) {
  const std::span<std::byte> room = places.room;
  const bool has_room = room.size() > result_bytes_ && cut.lengths.empty() && cut.results.values != nullptr;
  const std::uint64_t most = CapacityOf(
      has_room ? std::min(room.size(), kSegmentResultShare * result_bytes_) : result_bytes_, reduction);
  if (cut.segment_count > most) {
    return absl::InternalError(
        absl::StrCat("a launch over ", cut.segment_count, " segments, of which ", most, " fit"));
  }
  if (reinterpret_cast<std::uintptr_t>(data) % reduction.element_bytes() != 0) {
    return absl::InternalError("a launch over segments that are not aligned to their elements");
  }
  ClearErrors();  // of a launch whose results nobody has collected
  layout_.emplace(reduction);
  operators_ = reduction.operators().size();
  segment_count_ = cut.segment_count;
  columns_ = cut.results;
  writes_to_columns_ = places.has_columns;
  left_results_ = has_room ? room.data() : results_;
  const std::uint64_t elements = cut.ElementCount();  // a sum, if lengths vary
  const bool allows_registers = AreForRegisters(reduction, cut, elements, data);
  std::optional<SegmentPlan> plan;
  // Operators with smaller leaves, if there are any, come after all others, so that there are at most two
  // plans if lengths vary.
  for (const bool has_small_leaves : {false, true}) {
    for (std::size_t op = 0; op < operators_; ++op) {
      const BoundOperator& bound = reduction.operators()[op];
      const SegmentEntry& entry = EntryFor(reduction, bound);
      const std::uint32_t leaf_shift = LeafShift(reduction, entry);
      const bool in_registers = allows_registers && entry.has_registers;
      if ((leaf_shift != Log2Of(reduction.leaf_elements())) != has_small_leaves) continue;
      if (!plan.has_value() || plan->leaf_shift != leaf_shift || plan->in_registers != in_registers) {
        // The copies of the previous plan's tables may have yet to read them from the host's memory.
        if (plan.has_value() && !cut.lengths.empty()) {
          WARPFOLD_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
        }
        plan = PlanFor(reduction, cut, data);
        plan->leaf_shift = leaf_shift;
        plan->in_registers = in_registers;
        if (absl::Status status = Plan(reduction, cut, elements, *plan, stream); !status.ok()) return status;
      }
      WARPFOLD_RETURN_IF_CUDA_ERROR(entry.launch(bound.parameters, *plan, WorkOf(reduction, op), stream));
    }
  }
  return absl::OkStatus();
}

SegmentWork DeviceSegmentReducer::WorkOf(const ReductionPlan& reduction, std::size_t op) const {
  SegmentWork work;
  work.partials = partials_;
  work.tickets = tickets_;
  work.has_errors = reinterpret_cast<unsigned*>(device_errors_);
  work.multiprocessors = multiprocessors_;
  const ResultColumns out = Columns();
  work.out.values = out.values + layout_->FirstColumn(op) * out.stride;
  work.out.stride = out.stride;
  work.out.index_columns = layout_->IndexColumns(op);
  work.out.element = {.bits = static_cast<std::uint32_t>(8 * reduction.element_bytes()),
                      .is_signed = KindOf(reduction.spec()) == WideKind::kSigned,
                      .is_bool = reduction.spec().element_type == ElementType::kBool};
  work.out.errors = reinterpret_cast<std::uint8_t*>(device_errors_ + kErrorFlagBytes) + op * segment_count_;
  return work;
}

absl::Status DeviceSegmentReducer::Plan(const ReductionPlan& reduction, const SegmentCut& cut,
                                        std::uint64_t elements, SegmentPlan& plan, cudaStream_t stream) {
  // The largest state of all operators, which share the plan.
  std::uint64_t largest_state = kRunStateBytes / kMaxRuns;
  for (const BoundOperator& op : reduction.operators()) {
    largest_state = std::max<std::uint64_t>(largest_state, EntryFor(reduction, op).state_bytes);
  }
  const std::uint64_t most_runs = std::min(most_runs_, kRunStateBytes / largest_state);
  const std::uint64_t leaves = elements >> plan.leaf_shift;
  const std::uint64_t wanted = multiprocessors_ * kWarpsOfMultiprocessor * kRunsForEachWarp;
  while (plan.run_level < kUsualRunLevel && (leaves >> (plan.run_level + 1)) >= wanted) ++plan.run_level;
  if (!cut.lengths.empty()) return PlanVarying(cut, most_runs, plan, stream);
  PlanAlike(cut, most_runs, plan);
  return absl::OkStatus();
}

void DeviceSegmentReducer::PlanAlike(const SegmentCut& cut, std::uint64_t most_runs,
                                     SegmentPlan& plan) const {
  const std::uint64_t leaf = std::uint64_t{1} << plan.leaf_shift;
  plan.length = cut.length;
  if (cut.length <= leaf) {
    const std::uint64_t most = MostElementsInTile(plan) / std::max<std::uint64_t>(cut.length, 1);
    plan.tile_segments =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(most, MostInTile(plan, cut.length)));
    plan.item_count = (cut.segment_count + plan.tile_segments - 1) / plan.tile_segments;
    return;
  }
  const auto runs = [&] { return RunsOf(cut.length, plan); };
  while (runs() > 1 && cut.segment_count * runs() > most_runs) ++plan.run_level;
  plan.item_count = cut.segment_count * runs();
}

absl::Status DeviceSegmentReducer::PlanVarying(const SegmentCut& cut, std::uint64_t most_runs,
                                               SegmentPlan& plan, cudaStream_t stream) {
  const std::uint64_t leaf = std::uint64_t{1} << plan.leaf_shift;
  auto* const offsets = reinterpret_cast<std::uint64_t*>(host_tables_);
  const std::size_t offset_bytes = (cut.segment_count + 2) / 2 * sizeof(SegmentItem);
  auto* const items = reinterpret_cast<SegmentItem*>(host_tables_ + offset_bytes);
  std::uint64_t offset = 0;
  std::uint64_t longest = 0;
  for (std::uint64_t segment = 0; segment < cut.segment_count; ++segment) {
    offsets[segment] = offset;
    offset += cut.lengths[segment];
    longest = std::max(longest, cut.lengths[segment]);
  }
  offsets[cut.segment_count] = offset;
  const auto runs = [&] {
    std::uint64_t sum = 0;
    for (const std::uint64_t length : cut.lengths) {
      const std::uint64_t of_segment = length > leaf ? RunsOf(length, plan) : 1;
      if (of_segment > 1) sum += of_segment;
    }
    return sum;
  };
  while (longest > leaf && runs() > most_runs) ++plan.run_level;
  ForEachItem(cut, plan, [&](const SegmentItem& item) { items[plan.item_count++] = item; });
  plan.offsets = reinterpret_cast<const std::uint64_t*>(tables_);
  plan.items = reinterpret_cast<const SegmentItem*>(tables_ + offset_bytes);
  const std::size_t bytes = offset_bytes + plan.item_count * sizeof(SegmentItem);
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(tables_, host_tables_, bytes, cudaMemcpyHostToDevice, stream));
  return absl::OkStatus();
}

ResultColumns DeviceSegmentReducer::Columns() const {
  if (writes_to_columns_) return columns_;
  std::byte* const results = WritesToHost() ? mapped_results_ : left_results_;
  return {.values = reinterpret_cast<std::uint64_t*>(results), .stride = segment_count_};
}

bool DeviceSegmentReducer::WritesToHost() const {
  return !columns_.device.has_value() &&
         layout_->row_bytes() * segment_count_ <= std::min(kMaxMappedResultBytes, result_bytes_);
}

absl::Status DeviceSegmentReducer::CopyResults(cudaStream_t stream) {
  if (!NeedsCopy()) return absl::OkStatus();
  if (columns_.values != nullptr) return CopyToColumns(stream);
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
      host_results_, left_results_, layout_->row_bytes() * segment_count_, cudaMemcpyDeviceToHost, stream));
  return absl::OkStatus();
}

absl::Status DeviceSegmentReducer::CopyToColumns(cudaStream_t stream) {
  const std::uint64_t column_bytes = segment_count_ * sizeof(std::uint64_t);
  for (std::size_t column = 0; column < layout_->columns().size(); ++column) {
    auto* const to = reinterpret_cast<std::byte*>(columns_.values + column * columns_.stride);
    const std::byte* const from = left_results_ + column * column_bytes;
    for (std::uint64_t done = 0; done < column_bytes;) {
      std::uint64_t count = column_bytes - done;
      if (!columns_.device.has_value()) count = std::min(count, BytesOfRegistration(to + done));
      WARPFOLD_RETURN_IF_CUDA_ERROR(
          cudaMemcpyAsync(to + done, from + done, count, cudaMemcpyDefault, stream));
      done += count;
    }
  }
  return absl::OkStatus();
}

SegmentsResult DeviceSegmentReducer::Collect() {
  SegmentsResult result;
  result.segment_count = segment_count_;
  if (columns_.values == nullptr || WritesToHost()) {
    result.values = {reinterpret_cast<const std::uint64_t*>(host_results_),
                     layout_->columns().size() * segment_count_};
  }
  if (*reinterpret_cast<const volatile unsigned*>(errors_) == 0) return result;
  const std::span flags(reinterpret_cast<const std::uint8_t*>(errors_ + kErrorFlagBytes),
                        operators_ * segment_count_);
  result.errors = CollectErrors(flags, segment_count_);
  ClearErrors();
  return result;
}

void DeviceSegmentReducer::ClearErrors() {
  if (*reinterpret_cast<const volatile unsigned*>(errors_) == 0) return;
  std::memset(errors_, 0, kErrorFlagBytes + operators_ * segment_count_);
}

}  // namespace warpfold::kernels::cuda
