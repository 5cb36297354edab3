// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_reducer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/textbook/launch.h"
#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {
namespace {

// The first operator with the same states as operator `i`: for example, sum and mean need one pass, not two.
std::size_t Twin(const ReductionPlan& reduction, std::size_t i) {
  const auto ops = reduction.operators();
  std::size_t twin = 0;
  while (ops[twin].entry->reducer != ops[i].entry->reducer ||
         ops[twin].entry->reducer_ignores_nan != ops[i].entry->reducer_ignores_nan) {
    ++twin;
  }
  return twin;
}

cudaError_t LaunchTextbook(const ReductionSpec& spec, const BoundOperator& op,
                           const textbook::Section& section, const Workspace& workspace,
                           cudaStream_t stream) {
  const textbook::LaunchersByOverflow& launchers =
      *textbook::Rows()[op.entry->reducer]->For(*op.entry, spec.element_type, spec.shape);
  return launchers.For(spec.algorithm, op.parameters)(op.parameters, section, workspace, stream);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceReducer>> DeviceReducer::Create(std::size_t array_bytes,
                                                                     std::uint32_t multiprocessors) {
  std::unique_ptr<DeviceReducer> reducer(new DeviceReducer(array_bytes));
  const absl::Status allocated = reducer->Allocate(multiprocessors);
  return CompleteOrAbandon(std::move(reducer), allocated);
}

DeviceReducer::DeviceReducer(std::size_t array_bytes)
    : array_bytes_(array_bytes), partial_bytes_(PartialBytes(array_bytes)) {}

absl::Status DeviceReducer::Allocate(std::uint32_t multiprocessors) {
  int device = 0;
  int of_device = 0;
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&of_device, cudaDevAttrMultiProcessorCount, device));
  multiprocessors_ = multiprocessors > 0 ? multiprocessors : static_cast<std::uint32_t>(of_device);
  WARPFOLD_RETURN_IF_CUDA_ERROR(FindKernels());
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&partials_), partial_bytes_));
  const std::size_t ticket_bytes = TicketBytes(array_bytes_);
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&tickets_), ticket_bytes));
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemset(tickets_, 0, ticket_bytes));
  // The memset is on the legacy stream. Non-blocking streams, and so the first launch, do not wait for it.
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cudaStreamLegacy));
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaHostAlloc(reinterpret_cast<void**>(&nodes_), kMaxNodes * kMaxNodeBytes, cudaHostAllocMapped));
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_nodes_), nodes_, 0));
  return absl::OkStatus();
}

DeviceReducer::~DeviceReducer() {
  // Errors cannot be handled here: the process is ending, or the device is lost.
  cudaFree(partials_);
  cudaFree(tickets_);
  cudaFreeHost(nodes_);
}

std::uint64_t DeviceReducer::Capacity(const ReductionPlan& reduction) const {
  std::uint64_t leaves = array_bytes_ / reduction.leaf_bytes();
  // As many leaves as make whole vectors, if some fit: then what follows them is aligned, too, and can be
  // reduced in place. Leaves of matrices of 31 x 31 are not whole vectors.
  const std::uint64_t step = kVectorBytes / std::gcd(reduction.leaf_bytes(), std::uint64_t{kVectorBytes});
  if (leaves > step) leaves -= leaves % step;
  if (reduction.canonical() && !reduction.spec().shape.is_matrix()) {
    // Scalars need less memory for partials than Create allows for, so that longer ranges fit. A long range
    // has one state for each unit (PlanUnits), and a unit has at least as many leaves as its block has warps:
    // 4 if states of leaves are large or elements are combined in order, 8 otherwise (tuning.h). Compared
    // with these, the edges have few leaves if there are many blocks. So a range of n leaves has at most n/4
    // states, and those that they are folded into (fold.cuh), the last of which are in shared memory, are a
    // third more: n/3 in all. 3 leaves fit for each state. tests/kernels/simt/partials_test.cc counts them.
    std::uint64_t largest_state = 1;
    for (const BoundOperator& op : reduction.operators()) {
      largest_state = std::max<std::uint64_t>(largest_state, op.state_bytes);
    }
    const std::uint64_t states = partial_bytes_ / largest_state;
    leaves = std::max(leaves, multiprocessors_ >= kManyMultiprocessors ? 3 * states : states / 2);
  }
  if (!reduction.canonical()) {
    for (const BoundOperator& op : reduction.operators()) {
      const std::uint64_t partials = partial_bytes_ / op.state_bytes;
      leaves = std::min(leaves, textbook::LargestSection(partials) / reduction.leaf_elements());
    }
  }
  return leaves * reduction.leaf_elements();
}

absl::Status DeviceReducer::Launch(const ReductionPlan& reduction, std::uint64_t first_element,
                                   const std::byte* data, std::uint64_t element_count, cudaStream_t stream) {
  if (element_count > Capacity(reduction)) {
    return absl::InternalError(
        absl::StrCat("a launch over ", element_count, " elements, of which ", Capacity(reduction), " fit"));
  }
  if (reinterpret_cast<std::uintptr_t>(data) % kVectorBytes != 0) {
    return absl::InternalError(
        absl::StrCat("a launch over data that are not aligned to ", kVectorBytes, " bytes"));
  }
  const ReductionSpec& spec = reduction.spec();
  reduction_ = reduction;
  first_element_ = first_element;
  element_count_ = element_count;
  Range range;
  range.data = data;
  range.element_count = element_count;
  range.first_leaf = first_element / reduction.leaf_elements();
  range.leaf_count = reduction.LeafCount(element_count);
  range.entries = spec.shape.entries();
  Workspace workspace;
  workspace.partials = partials_;
  workspace.multiprocessors = multiprocessors_;
  workspace.tickets = tickets_;
  workspace.node_stride = reduction.node_bytes();
  workspace.node_count =
      static_cast<std::uint32_t>(MaximalSubtrees(range.first_leaf, range.leaf_count).size());
  for (std::size_t i = 0; i < reduction.operators().size(); ++i) {
    if (Twin(reduction, i) != i) continue;
    const BoundOperator& op = reduction.operators()[i];
    workspace.nodes = device_nodes_ + op.state_offset;
    if (!reduction.canonical()) {
      const textbook::Section section = {data, element_count, first_element};
      // Natural states are shorter than the states that Collect takes.
      std::memset(nodes_ + op.state_offset, 0, op.state_bytes);
      WARPFOLD_RETURN_IF_CUDA_ERROR(LaunchTextbook(spec, op, section, workspace, stream));
      continue;
    }
    const LaunchFunction launch = Rows()[op.entry->reducer]->For(*op.entry, spec.element_type, spec.shape);
    WARPFOLD_RETURN_IF_CUDA_ERROR(launch(op.parameters, range, workspace, stream));
  }
  return absl::OkStatus();
}

// The states of all operators at one node; kernels wrote one for each set of twins.
std::vector<std::byte> DeviceReducer::StatesOf(const std::byte* node) const {
  std::vector<std::byte> states(reduction_->node_bytes());
  for (std::size_t i = 0; i < reduction_->operators().size(); ++i) {
    const BoundOperator& op = reduction_->operators()[i];
    const BoundOperator& twin = reduction_->operators()[Twin(*reduction_, i)];
    std::memcpy(states.data() + op.state_offset, node + twin.state_offset, op.state_bytes);
  }
  return states;
}

PartialState DeviceReducer::Collect() const {
  const std::uint64_t leaf_elements = reduction_->leaf_elements();
  PartialState state(*reduction_, first_element_);
  if (!reduction_->canonical()) {
    state.AppendNode({}, element_count_, StatesOf(nodes_));
    return state;
  }
  const std::uint64_t leaf_count = reduction_->LeafCount(element_count_);
  std::uint64_t rest = element_count_;
  const std::byte* node_states = nodes_;
  for (const NodePosition node : MaximalSubtrees(first_element_ / leaf_elements, leaf_count)) {
    const std::uint64_t elements = std::min(rest, leaf_elements << node.level);
    state.AppendNode(node, elements, StatesOf(node_states));
    rest -= elements;
    node_states += reduction_->node_bytes();
  }
  return state;
}

}  // namespace warpfold::kernels::cuda
