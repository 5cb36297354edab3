// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp reduces leaves of a commutative scalar operator.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cuda {

template <ScalarOperator Op>
class ScalarLeaves {
 public:
  using Operation = Op;
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr int kWarps = 8;
  static constexpr std::uint32_t kLeafElements = kLeafBytes / sizeof(T);
  // A warp folds at most 2^5 leaves: then each lane holds the state of one.
  static constexpr std::uint32_t kLargestLevel = 5;

  __device__ ScalarLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  // The state of the aligned, full leaves [first, first + 2^level); in every lane.
  //
  // The canonical order folds the 32 lanes of each leaf at distances 16, 8, 4, 2, 1. Done leaf by leaf that
  // is five shuffles a leaf. Here two leaves go through the distance 16 at once: the lower half of the warp
  // keeps the first leaf and the upper half the second, each sending what it does not keep. What remains is
  // one register for two leaves, which pairs in the same way with that of the next two at distance 8, and so
  // on: one shuffle a leaf, and the same combinations.
  __device__ State FoldRun(std::uint64_t first, std::uint32_t level) const {
    LeafState waiting[kLargestLevel];  // waiting[l]: 2^l leaves that have no partner yet
    LeafState folded{};
    uint4 vectors[kLeafRows];
    Load(first, vectors);
    for (std::uint32_t i = 0; i < 1u << level; ++i) {
      folded = FoldLane(vectors);
      if (i + 1 < 1u << level) Load(first + i + 1, vectors);
#pragma unroll
      for (std::uint32_t l = 0; l < kLargestLevel; ++l) {
        if (l >= level) break;
        if ((i >> l) % 2 == 0) {
          waiting[l] = folded;
          break;
        }
        folded = Exchange(waiting[l], folded, kLanes / 2 >> l);
      }
    }
    for (int distance = kLanes / 2 >> level; distance > 0; distance /= 2) {
      folded = op_.Combine(folded, ShuffleXor(folded, distance));
    }
    // Bit l of a leaf's number is now bit 4 - l of the lanes that hold it.
    const std::uint64_t leaf = first + (__brev(lane_) >> 27) % (1u << level);
    State state = op_.Widen(folded, leaf * kLeafElements);
    for (std::uint32_t l = 0; l < level; ++l) state = op_.Combine(state, ShuffleXor(state, kLanes / 2 >> l));
    return state;
  }

  // The state of one leaf, which may be short; in every lane.
  __device__ State FoldEdge(std::uint64_t leaf) const {
    const std::uint64_t skipped = (leaf - range_.first_leaf) * kLeafElements;
    const std::uint64_t count = range_.element_count - skipped;
    if (count >= kLeafElements) return FoldRun(leaf, 0);
    const T* const elements = reinterpret_cast<const T*>(range_.data) + skipped;
    LeafState columns[kVector];
#pragma unroll
    for (std::uint32_t c = 0; c < kVector; ++c) {
      columns[c] = op_.LeafIdentity();
      for (std::uint32_t i = lane_ * kVector + c; i < count; i += kRowElements) {
        columns[c] = op_.Combine(columns[c], op_.Lift(elements[i], i));
      }
    }
    LeafState folded = FoldVector(columns);
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      folded = op_.Combine(folded, ShuffleXor(folded, distance));
    }
    return op_.Widen(folded, leaf * kLeafElements);
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);

  // This lane's vector of each row. All loads are independent: 4 KiB in flight per warp.
  __device__ void Load(std::uint64_t leaf, uint4 (&vectors)[kLeafRows]) const {
    const auto* rows =
        reinterpret_cast<const uint4*>(range_.data + (leaf - range_.first_leaf) * kLeafBytes) + lane_;
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) vectors[row] = __ldcs(rows + row * kLanes);
  }

  // Folds this lane's columns, then their states pairwise.
  __device__ LeafState FoldLane(const uint4 (&vectors)[kLeafRows]) const {
    LeafState columns[kVector];
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) {
      T elements[kVector];
      std::memcpy(elements, &vectors[row], sizeof elements);
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; ++c) {
        const LeafState lifted = op_.Lift(elements[c], row * kRowElements + lane_ * kVector + c);
        columns[c] = row == 0 ? lifted : op_.Combine(columns[c], lifted);
      }
    }
    return FoldVector(columns);
  }

  __device__ LeafState FoldVector(LeafState (&columns)[kVector]) const {
#pragma unroll
    for (std::uint32_t width = 1; width < kVector; width *= 2) {
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; c += 2 * width)
        columns[c] = op_.Combine(columns[c], columns[c + width]);
    }
    return columns[0];
  }

  // Combines lanes l and l + distance of two runs at once: of `first` where the lane's bit `distance` is
  // clear, of `second` where it is set.
  __device__ LeafState Exchange(const LeafState& first, const LeafState& second, int distance) const {
    const bool upper = (lane_ & distance) != 0;
    const LeafState kept = upper ? second : first;
    const LeafState sent = upper ? first : second;
    return op_.Combine(kept, ShuffleXor(sent, distance));
  }

  const Op& op_;
  const Range& range_;
  const std::uint32_t lane_;
};

}  // namespace warpfold::kernels::cuda
