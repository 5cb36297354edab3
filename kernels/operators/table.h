// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of operators x element types, as data: what the untyped parts of Warpfold (partial states,
// requests, the server) need to know about an operator. Built at compile time from the two lists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace warpfold::kernels {

// One operator for one element type. States are byte ranges without alignment. Functions act on `entries`
// states side by side: 1, or one for each entry of a matrix (StatesOf says which).
struct OperatorEntry {
  bool supported = false;
  bool commutative = false;
  bool associative = false;  // to the bit (AssociativeOperator)
  bool has_identity = false;
  bool whole_matrix = false;  // takes whole matrices, and not entry by entry
  // Takes whole matrices, too, but has a state for each entry; the states can be combined only all together.
  bool large_matrix = false;
  int family = 0;   // its own place in the list
  int reducer = 0;  // the family, in the order of the list, whose kernels compute the states
  bool reducer_ignores_nan = false;
  // The options that it follows (traits.h).
  bool takes_modulus = false;
  bool takes_ddof = false;
  bool ignores_nan = false;  // elements are never NaN, or those that are do not count
  // Results are integers of 64 bits that long enough arrays may overflow, unless they wrap.
  bool may_overflow = false;
  // Why overflows have no value modulo 2^bits; null if they have one, and if there are none.
  const char* never_wraps = nullptr;
  std::size_t state_bytes = 0;
  std::span<const char* const> fields = {};  // the results' names, if there are several

  // out = left x right; out may be either of them.
  void (*combine)(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* left,
                  const std::byte* right, std::byte* out) = nullptr;
  void (*identity)(const OperatorParameters& parameters, std::uint32_t entries, std::byte* out) = nullptr;
  void (*canonicalize)(std::uint32_t entries, std::byte* state) = nullptr;
  // Whether elements [first, first + count), count > 0, could have this state.
  bool (*is_possible)(const OperatorParameters& parameters, std::uint32_t entries, const std::byte* state,
                      std::uint64_t first, std::uint64_t count) = nullptr;
  // Finishes one entry of a matrix, or one field.
  Outcome (*finish)(const OperatorParameters& parameters, const std::byte* state, std::uint64_t count,
                    std::uint32_t entry) = nullptr;
};

// How many states there are for elements with this number of entries.
constexpr std::uint32_t StatesOf(const OperatorEntry& op, std::uint32_t entries) {
  return op.whole_matrix && !op.large_matrix ? 1 : entries;
}

struct OperatorRow {
  const char* name = nullptr;
  // By element type and ignore_nan.
  std::array<std::array<OperatorEntry, 2>, kElementTypeCount> scalar{};
  // Whether matrices are reduced entry by entry, with the entries of `scalar`.
  bool entrywise = false;
  // By element type and WholeIndex of the shape, for operators over whole matrices.
  std::array<std::array<OperatorEntry, kWholeShapes>, kElementTypeCount> whole{};
};

std::span<const OperatorRow> OperatorTable();

}  // namespace warpfold::kernels
