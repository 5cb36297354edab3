// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How large the units of matrix products are, and where matrices lie in shared memory. There is no CUDA in
// here: tests run it on the host.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cuda/matrix/tree_schedule.h"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/types.h"

namespace warpfold::kernels::cuda {

// A lane's place among those that share a product.
struct LanePlace {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
};

// What planning needs to know about a MatrixTile.
struct TileShape {
  std::uint32_t entry_bytes = 0;
  std::uint32_t lane_rows = 0;
  std::uint32_t lane_columns = 0;
  std::uint32_t padded_dimension = 0;
  std::uint32_t vector = 0;               // entries that a lane reads at once
  std::uint32_t most_waiting_levels = 0;  // of states, in shared memory

  constexpr std::uint32_t lanes_each() const { return lane_rows * lane_columns; }
  // How many products a block computes at once: a block is one warp, or as many warps as share a product.
  constexpr std::uint32_t products() const { return lanes_each() < kLanes ? kLanes / lanes_each() : 1; }

  // Adjacent lanes share their row, and lanes two apart their column: shared memory serves a warp's 16-byte
  // vectors in two turns if lanes agree in such pairs, and in four if they do not (measured on an H200).
  WARPFOLD_FN constexpr LanePlace PlaceOf(std::uint32_t lane) const {
    if (lane_rows == 1 || lane_columns == 1) return {lane / lane_columns, lane % lane_columns};
    return {lane / (2 * lane_columns) * 2 + lane / 2 % 2, lane / 4 % (lane_columns / 2) * 2 + lane % 2};
  }

  // How far rows are apart in shared memory, in entries. If a few rows are enough to have a word for every
  // bank, they are one vector further apart, so that lanes that read one column of several rows do not meet
  // in a bank.
  WARPFOLD_FN constexpr std::uint32_t RowStride(std::uint32_t dimension) const {
    return vector > 1 && dimension * entry_bytes >= 64 ? dimension + vector : dimension;
  }
};

// How many turns shared memory needs for the first loads of a product: those of the left factors, and those
// of the right ones. Its 32 banks serve one word each.
constexpr std::uint32_t BankTurns(const TileShape& shape, std::uint32_t dimension,
                                  std::uint32_t pair_stride) {
  constexpr std::uint32_t kBanks = 32;
  const std::uint32_t lane_words = shape.vector * shape.entry_bytes / 4;
  // As many lanes as have 32 words are served at once, or as many pairs of lanes.
  const std::uint32_t at_once = kBanks / lane_words * (lane_words == 4 && shape.lanes_each() > 1 ? 2 : 1);
  std::uint32_t turns = 0;
  for (const bool is_left : {true, false}) {
    for (std::uint32_t first = 0; first < kLanes; first += at_once) {
      std::array<std::array<std::uint32_t, kLanes>, kBanks> words{};  // different ones, by bank
      std::array<std::uint32_t, kBanks> used{};
      for (std::uint32_t word = first * lane_words; word < (first + at_once) * lane_words; ++word) {
        const std::uint32_t lane = word / lane_words;
        const LanePlace place = shape.PlaceOf(lane % shape.lanes_each());
        const std::uint32_t entry =
            lane / shape.lanes_each() * pair_stride +
            (is_left ? place.row * shape.RowStride(dimension) : place.column * shape.vector);
        const std::uint32_t address = entry * shape.entry_bytes / 4 + word % lane_words;
        const std::uint32_t bank = address % kBanks;
        const auto end = words[bank].begin() + used[bank];
        if (std::find(words[bank].begin(), end, address) == end) words[bank][used[bank]++] = address;
      }
      turns += *std::max_element(used.begin(), used.end());
    }
  }
  return turns;
}

// How far pairs of matrices are apart in shared memory, in entries: the gap has room for what a tile may read
// beyond the right matrix, and keeps bank conflicts few. 16-byte copies stay aligned if those of the pairs
// are, and so do 8-byte ones.
constexpr std::uint32_t PairStride(const TileShape& shape, std::uint32_t dimension) {
  const std::uint32_t pair = 2 * dimension * shape.RowStride(dimension);
  const std::uint32_t step = (pair * shape.entry_bytes % 16 == 0 ? 16 : 8) / shape.entry_bytes;
  const std::uint32_t least = (pair + shape.padded_dimension - dimension + step - 1) / step * step;
  std::uint32_t best = least;
  std::uint32_t best_turns = BankTurns(shape, dimension, least);
  for (std::uint32_t stride = least + step; stride < least + 32; stride += step) {
    const std::uint32_t turns = BankTurns(shape, dimension, stride);
    if (turns < best_turns) {
      best = stride;
      best_turns = turns;
    }
  }
  return best;
}

using PairStrides = std::array<std::uint32_t, kMaxMatrixDimension + 1>;

// The strides by dimension, for dimensions that fill more than half of the tile.
inline PairStrides PairStridesOf(const TileShape& shape) {
  PairStrides strides{};
  for (std::uint32_t d = shape.padded_dimension / 2; d <= shape.padded_dimension; ++d) {
    strides[d] = PairStride(shape, d);
  }
  return strides;
}

// The plan of a launch.
struct MatrixPlan {
  TreePlan tree;
  std::uint32_t dimension = 0;
  // How the block's shared memory is laid out, in entries and bytes.
  std::uint32_t pair_stride = 0;
  std::uint32_t waiting_stride = 0;
  std::uint32_t copy_bytes = 0;  // of an asynchronous copy into a batch: 4, 8 or 16
  std::uint32_t state_copy_bytes = 0;
  std::uint32_t waiting_levels = 0;
  std::uint32_t shared_bytes = 0;
};

// The bytes of the largest asynchronous copy to and from multiples of `bytes`.
constexpr std::uint32_t LargestCopy(std::uint64_t bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
}

// The plan for `elements` from the start of leaf `first_leaf` on.
inline MatrixPlan PlanMatrices(const TileShape& shape, std::uint32_t dimension, std::uint32_t pair_stride,
                               std::uint64_t first_leaf, std::uint64_t elements,
                               std::uint64_t multiprocessors,
                               std::uint32_t most_shared_bytes = kMaxTileSharedBytes) {
  const std::uint32_t entries = dimension * dimension;
  const std::uint64_t element_bytes = entries * shape.entry_bytes;
  const auto leaf_elements = static_cast<std::uint32_t>(LeafElements(element_bytes));
  const std::uint32_t batch_level = Log2(2 * shape.products());
  MatrixPlan plan;
  plan.dimension = dimension;

  const std::uint32_t vector_entries = kVectorBytes / shape.entry_bytes;
  const std::uint32_t matrix = dimension * shape.RowStride(dimension);
  plan.waiting_stride = shape.products() > 1
                            ? shape.products() / 2 * pair_stride
                            : (matrix + vector_entries - 1) / vector_entries * vector_entries;
  // A tile may also read beyond a last single matrix.
  const std::uint32_t beyond = (shape.padded_dimension - dimension) * dimension;
  const auto shared_bytes = [&](std::uint32_t level) {
    return (2 * shape.products() * pair_stride + (level - batch_level) * plan.waiting_stride + beyond) *
           shape.entry_bytes;
  };

  std::uint32_t level = std::max({batch_level, Log2(leaf_elements), kSmallestUnitLevel});
  while (element_bytes << level < kSmallestUnitBytes) ++level;
  while (level < batch_level + shape.most_waiting_levels &&
         elements >> level > kUnitsPerMultiprocessor * multiprocessors &&
         shared_bytes(level + 1) <= most_shared_bytes) {
    ++level;
  }
  plan.waiting_levels = level - batch_level;
  plan.shared_bytes = shared_bytes(level);
  plan.tree = PlanTree(first_leaf, elements, element_bytes, level - Log2(leaf_elements), batch_level, 1);

  // Batches are aligned like their first elements: to pairs, or to a leaf of one element.
  const std::uint64_t alignment = (leaf_elements == 1 ? 1 : 2) * element_bytes;
  plan.copy_bytes = LargestCopy(alignment);
  plan.state_copy_bytes = LargestCopy(element_bytes);
  plan.pair_stride = pair_stride;
  return plan;
}

}  // namespace warpfold::kernels::cuda
