// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of an array, reduced but not finished. A program that itself splits an array over processes or
// machines reduces each part with Client::ReducePart, anywhere, and merges the states in array order: the
// value has the same bits that one call over the whole array would give.
#pragma once

#include <cstdint>
#include <string>

#include "client/array.h"
#include "proto/leaf.h"

namespace warpfold {

struct PartialState {
  // The range that the state covers, in elements of the whole array.
  std::uint64_t first_element = 0;
  std::uint64_t element_count = 0;
  // A serialized warpfold.v1.PartialState, to be stored or sent anywhere. It contains up to some 40 states
  // for an operator that rounds, depending on where the range begins and how long it is, and one state for
  // any other operator, of 10 to 300 bytes for scalars. It also names its spec (PartialState.spec in
  // reduction.proto).
  std::string bytes;
};

// The unit in which an array may be split: a part must begin at a multiple of it, so the length of each part
// but the last is a multiple of it. `element_bytes` is ElementTypeBytes, or the bytes of a matrix.
constexpr std::uint64_t CutElements(std::uint64_t element_bytes) { return LeafElements(element_bytes); }

}  // namespace warpfold
