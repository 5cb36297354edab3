// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segmented reductions: an array is cut into consecutive segments, and each of them is reduced as a separate
// array, with indices and a canonical tree that begin at its first element, wherever that lies in memory. So
// the bits are those of a separate reduction for each segment. Only operators over scalars are allowed.
//
// Results are columns of 8-byte values, one value for each segment: int64, uint64 or double, whichever the
// operator's result is; 0 or 1 if it is a bool. Operators with several fields have a column for each of them;
// argmin, argmax and max_subarray_sum have one more for the index, relative to the segment, and
// max_subarray_sum one for the end index. A missing index is 2^64 - 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/reduction.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// A slot's memory for results of segments is its bytes divided by this: enough for one value for every 32
// bytes of elements.
inline constexpr std::size_t kSegmentResultShare = 4;

// Where the caller wants results, in memory that it keeps: that of segment s in column c at
// values[c * stride + s]. Nowhere by default.
struct ResultColumns {
  std::uint64_t* values = nullptr;
  std::uint64_t stride = 0;
  std::optional<int> device = std::nullopt;  // that has the memory, as Memory::device(); none if the host has
};

// How an array is cut. Refers to memory that the caller keeps.
struct SegmentCut {
  std::uint64_t segment_count = 0;
  std::uint64_t length = 0;                     // elements of each segment, if `lengths` is empty
  std::span<const std::uint64_t> lengths = {};  // elements of each segment, 0 being allowed; or empty
  // In memory that the backend has registered for writing, all of it (Memory::is_registered), or that is a
  // device's, aligned to a value. A slot that copies results anyway, or has the memory on its device, leaves
  // them there; then its SegmentsResult has no values. It may also return them as usual.
  ResultColumns results = {};

  std::uint64_t LengthOf(std::uint64_t segment) const { return lengths.empty() ? length : lengths[segment]; }
  std::uint64_t ElementCount() const;
};

struct SegmentColumn {
  enum class What : std::uint8_t { kValue, kIndex, kEndIndex };

  std::size_t op = 0;  // in the order of the reduction's operators
  What what = What::kValue;
  std::size_t field = 0;  // of a value, if the operator has several
  Scalar::Kind kind = Scalar::Kind::kUint64;
};

// A segment for which operator `op` has no result: its values are 0 and its indices 2^64 - 1.
struct SegmentError {
  std::uint64_t segment = 0;
  std::size_t op = 0;
  Outcome::Error error = Outcome::Error::kNone;

  friend bool operator==(const SegmentError& a, const SegmentError& b) = default;
};

// The columns of a reduction, in the order in which results have them: those of the first operator first, and
// for each operator the values, then the index and the end index.
class SegmentLayout {
 public:
  explicit SegmentLayout(const ReductionPlan& reduction);

  std::span<const SegmentColumn> columns() const { return columns_; }
  std::size_t FirstColumn(std::size_t op) const { return first_columns_[op]; }
  std::uint32_t IndexColumns(std::size_t op) const { return index_columns_[op]; }
  // Bytes of a segment's results.
  std::size_t row_bytes() const { return columns_.size() * sizeof(std::uint64_t); }

 private:
  std::vector<SegmentColumn> columns_;
  std::vector<std::size_t> first_columns_;
  std::vector<std::uint32_t> index_columns_;
};

// INVALID_ARGUMENT (BAD_HEADER) for reductions that have no segments: over matrices, or with one of the
// textbook's algorithms.
absl::Status CheckSegments(const ReductionPlan& reduction);

// What a slot made of segments. `values` are in its memory until its next Start.
struct SegmentsResult {
  std::uint64_t segment_count = 0;
  // Column after column; none if the slot has written them to SegmentCut::results.
  std::span<const std::uint64_t> values = {};
  std::vector<SegmentError> errors = {};  // in the order of segments, then of operators
  absl::Duration copy = {};               // to and from the device; zero on the CPU
  absl::Duration kernel = {};             // reducing

  std::span<const std::uint64_t> Column(std::size_t column) const {
    return values.subspan(column * segment_count, segment_count);
  }
};

// The errors behind `flags`: operator after operator, an Outcome::Error for each segment.
std::vector<SegmentError> CollectErrors(std::span<const std::uint8_t> flags, std::uint64_t segment_count);

}  // namespace warpfold::kernels
