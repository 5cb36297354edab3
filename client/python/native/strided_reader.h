// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An array that lies in memory with any strides, read in row-major order piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace warpfold::python {

// Where the elements are. Strides are in bytes, and may be negative or 0.
struct Layout {
  const std::byte* first = nullptr;  // the element with all indices 0
  std::size_t element_bytes = 1;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  // Whether there are fewer than 2^63 bytes, which everything else here assumes.
  bool is_countable() const;
  std::uint64_t byte_count() const;
  // Whether the elements lie in row-major order without gaps.
  bool is_contiguous() const;
  // The same with its first dimensions in this order, which names each of them.
  Layout Permuted(const std::vector<std::size_t>& order) const;
  // All bytes from the first of an element to the last of one, gaps between them included.
  std::span<const std::byte> extent() const;
};

// Threads: Read may be called from any thread.
class StridedReader {
 public:
  explicit StridedReader(const Layout& layout);

  // Copies bytes [offset, offset + buffer.size()) of the array in row-major order. Both numbers are multiples
  // of the size of an element.
  void Read(std::uint64_t offset, std::span<std::byte> buffer) const;

 private:
  const std::byte* const first_;
  const std::size_t element_bytes_;
  // Dimensions of one element are left out, and neighbours that are stepped through as one are joined. There
  // is at least one dimension, and the innermost is the last.
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
};

}  // namespace warpfold::python
