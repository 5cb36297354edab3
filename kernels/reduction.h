// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A ReductionPlan is a validated request: which operators to apply to which elements, and where their states
// lie. Backends and partial states follow it; after Create nothing can fail for a reason that lies in the
// request. The outcome is a PartialState (partial_state.h), or the message Reduction on the wire.
//
// Threads: immutable after Create, freely shared. Copying is cheap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/algorithm.h"
#include "kernels/types.h"

namespace warpfold::kernels {

struct OperatorEntry;  // operators/table.h

// What the caller asks for.
struct ReductionSpec {
  std::vector<std::string> operators;  // names such as "sum"; 1 to kMaxOperators, each once
  ElementType element_type = ElementType::kInt32;
  ElementShape shape;
  bool wrap_overflow = false;
  bool report_overflow = false;  // asked for by name; without a policy operators report or wrap, as they do
  bool ignore_nan = false;
  std::optional<std::uint64_t> modulus;
  double ddof = 0;
  // Any except kAuto: one of the textbook's, whose result is not canonical (partial_state.h).
  Algorithm algorithm = Algorithm::kAuto;
};
inline constexpr int kMaxOperators = 16;
// The most bytes that the states of one node have, all operators together. Slots have memory for that, and
// with it the partial states of arrays of 2^50 bytes fit messages.
inline constexpr std::size_t kMaxNodeBytes = std::size_t{32} << 10;

// The value of one operator. A matrix where shape.is_matrix(), row-major.
struct OperatorValue {
  ElementShape shape;
  std::vector<Scalar> entries;
  std::optional<std::uint64_t> index;      // argmin, argmax; max_subarray_sum: of the first element
  std::optional<std::uint64_t> end_index;  // max_subarray_sum: of the element after the last one
  // If the operator has several results: their names, one for each of `entries`.
  std::span<const char* const> fields = {};
};

// One operator of a reduction, bound to its element type and parameters.
struct BoundOperator {
  const OperatorEntry* entry = nullptr;  // never null
  OperatorParameters parameters;
  // How many states an element has. The entry's functions take this number as `entries`.
  std::uint32_t states = 1;
  bool by_node = false;          // partial states keep a state at each node, instead of one for their range
  std::size_t state_offset = 0;  // of this operator's state in a node
  std::size_t state_bytes = 0;   // all states together
};

class ReductionPlan {
 public:
  // Errors: UNIMPLEMENTED (UNKNOWN_OPERATOR), INVALID_ARGUMENT (UNSUPPORTED_TYPE, BAD_HEADER,
  // UNSUPPORTED_ALGORITHM: the algorithm does not serve this operator, element type or shape). The reason is
  // attached to the status; see error.h.
  static absl::StatusOr<ReductionPlan> Create(const ReductionSpec& spec);

  const ReductionSpec& spec() const { return contents_->spec; }
  // Whether states are canonical: the same bits from every backend and every cut.
  bool canonical() const { return spec().algorithm == Algorithm::kAuto; }
  std::span<const BoundOperator> operators() const { return contents_->operators; }

  std::uint64_t element_bytes() const { return contents_->element_bytes; }
  // Ranges start at multiples of this many elements.
  std::uint64_t leaf_elements() const { return contents_->leaf_elements; }
  std::uint64_t leaf_bytes() const { return contents_->leaf_elements * contents_->element_bytes; }
  // How many leaves a range of `element_count` elements has; the last one may be short.
  std::uint64_t LeafCount(std::uint64_t element_count) const {
    return (element_count + leaf_elements() - 1) / leaf_elements();
  }
  // Bytes of one node's states, all operators together. A multiple of 16.
  std::size_t node_bytes() const { return contents_->node_bytes; }
  // How many of these, from the start, belong to operators with a state at each node
  // (BoundOperator::by_node).
  std::size_t by_node_bytes() const { return contents_->by_node_bytes; }

 private:
  struct Contents {
    ReductionSpec spec;
    std::vector<BoundOperator> operators;
    std::uint64_t element_bytes = 0;
    std::uint64_t leaf_elements = 0;
    std::size_t node_bytes = 0;
    std::size_t by_node_bytes = 0;
  };
  explicit ReductionPlan(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

// Names of all operators, in the order of the operator list.
std::span<const absl::string_view> OperatorNames();
// Whether the operator, by its position in OperatorNames(), takes scalars (or matrices) of this type.
bool OperatorTakesScalars(int family, ElementType type);
bool OperatorTakesMatrices(int family, ElementType type);

}  // namespace warpfold::kernels
