// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of an array, reduced but not finished. A program that cuts an array by itself, over processes or
// machines, reduces each part by Client::ReducePart, anywhere, and merges the states in array order: the
// value has the bits that one call over the whole array would give.
#pragma once

#include <cstdint>
#include <string>

#include "client/array.h"
#include "proto/leaf.h"

namespace warpfold {

struct PartialState {
  // The range that the state is of, in elements of the whole array.
  std::uint64_t first_element = 0;
  std::uint64_t element_count = 0;
  // A serialized warpfold.v1.PartialState, to be stored or sent anywhere. An operator that rounds has up to
  // some 40 states in it, by where the range begins and how long it is; others have one, of 10 to 300 bytes
  // for scalars. It also says of what it is (PartialState.spec in reduction.proto).
  std::string bytes;
};

// The unit in which an array may be cut: a part must begin at a multiple of it, so all but the last one have
// multiples of it. `element_bytes` is ElementTypeBytes, or the bytes of a matrix.
constexpr std::uint64_t CutElements(std::uint64_t element_bytes) { return LeafElements(element_bytes); }

}  // namespace warpfold
