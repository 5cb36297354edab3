// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many results from one pass over an array: one for each of the consecutive segments into which it is cut.
// Each has the bits that Client::Reduce returns for the segment alone.
//
//   std::vector<float> matrix = ...;  // 1000 rows of 64
//   absl::StatusOr<warpfold::SegmentTable> means =
//       client.ReduceSegments({.operators = {"mean"}}, matrix, {.length = 64});
//   double first = means->columns[0].DoubleAt(0);
//
// If there are more results than fit in memory, they can go to a visitor instead, while the array is sent. A
// client on the server's machine can have them written to memory that it shares with the server, so that they
// need not be sent: SegmentCut::results.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/result.h"

namespace warpfold {

// Memory for results, of this process or of a GPU. shared_memory.h registers it with kReadWrite:
//
//   const auto results =  // absl::StatusOr
//       connection.Allocate(rows * sizeof(double), warpfold::MemoryAccess::kReadWrite);
//   const warpfold::SegmentCut cut = {.length = columns,
//                                     .results = warpfold::ResultsReference{results->token()}};
//   const auto summary = client.ReduceSegmentsReference({.operators = {"mean"}}, type, matrix, cut,
//                                                       [](const warpfold::SegmentResults&) {});
//   const auto* means = reinterpret_cast<const double*>(results->data().data());
struct ResultsReference {
  std::string token;              // bytes: SharedMemory::token(), RegisteredMemory::token()
  std::uint64_t byte_offset = 0;  // of the first column, a multiple of 8
};

// How an array is cut. Refers to memory that must stay until the call returns.
struct SegmentCut {
  // The number of elements in each segment, which must divide that of the array; 0: `lengths` says it.
  std::uint64_t length = 0;
  // The number of elements in each segment, which may be 0; their sum must be that of the array.
  std::span<const std::uint64_t> lengths = {};
  // Where the server writes the values, column after column, each with a value of 8 bytes for each segment
  // (SegmentColumnsOf). They are final once the call has returned OK, and the library does not check them;
  // visitors and tables then get columns and failures, but no values. They must not overlap the array. After
  // a call that failed they mean nothing, and the server may write there for a moment. Only for a Client with
  // one target. NOT_FOUND (UNKNOWN_MEMORY); INVALID_ARGUMENT (BAD_HEADER) if the memory is not for results,
  // or too small.
  std::optional<ResultsReference> results = {};
  // Whether the visitor can begin anew: if the server or the connection is lost after it has seen results,
  // the call is retried, and the visitor called with the columns and no segments again. If not, the call
  // fails then (UNAVAILABLE). Tables begin anew by themselves.
  bool restarts = false;
};

// What a column of results is. An operator has a column for its value, or one for each of its fields, then
// columns for its indices if it has any: they are counted from the start of the segment, and are kNoIndex if
// there is none.
struct SegmentColumn {
  static constexpr std::uint64_t kNoIndex = ~std::uint64_t{0};
  enum class Content : std::uint8_t { kValue, kIndex, kEndIndex };
  enum class Kind : std::uint8_t { kInt64, kUint64, kDouble, kBool };

  std::string name;  // of the operator
  Content content = Content::kValue;
  std::string field;          // if the operator has several
  Kind kind = Kind::kUint64;  // what the 8 bytes of a value are; a bool is 0 or 1
};

// The columns of these operators' results. UNIMPLEMENTED for operators and algorithms that do not exist,
// INVALID_ARGUMENT for matrices. Only the server checks the rest, for example whether an operator takes
// elements of this type.
absl::StatusOr<std::vector<SegmentColumn>> SegmentColumnsOf(const Spec& spec, ElementType type);

// A segment without a result for one operator: its values are 0, its indices SegmentColumn::kNoIndex.
struct SegmentFailure {
  enum class Reason : std::uint8_t { kOverflow, kEmptyArray };

  std::uint64_t segment = 0;
  std::size_t op = 0;  // its position in Spec::operators
  Reason reason = Reason::kOverflow;
  friend bool operator==(const SegmentFailure&, const SegmentFailure&) = default;
};

// Results of adjacent segments, in memory that is valid while the visitor runs.
struct SegmentResults {
  std::uint64_t first_segment = 0;
  std::uint64_t segment_count = 0;
  std::span<const SegmentColumn> columns;
  // Column after column; the column's kind says what they are. None if they go to SegmentCut::results.
  std::span<const std::uint64_t> values;
  std::span<const SegmentFailure> failures;

  std::span<const std::uint64_t> Column(std::size_t column) const {
    return values.empty() ? values : values.subspan(column * segment_count, segment_count);
  }
  // One row, 0 to segment_count - 1, as Client::Reduce would return it; empty if there are no values.
  std::vector<OperatorResult> Row(std::uint64_t row) const;
};

// Called on the calling thread: first with the columns and no segments, then with results in the order of
// segments. If the call is retried, this begins anew. Results are provisional until the call has returned OK:
// before that the server has not compared what arrived with what was sent.
using SegmentVisitor = std::function<void(const SegmentResults& results)>;

struct SegmentSummary {
  std::uint64_t segment_count = 0;
  std::uint64_t element_count = 0;
  std::uint64_t failure_count = 0;
  std::string device;
  Timings timings;
};

// All results of an array.
struct SegmentTable {
  struct Column : SegmentColumn {
    std::vector<std::uint64_t> bits;  // one for each segment; none if they go to SegmentCut::results

    std::int64_t Int64At(std::uint64_t segment) const { return static_cast<std::int64_t>(bits[segment]); }
    double DoubleAt(std::uint64_t segment) const { return std::bit_cast<double>(bits[segment]); }
    // According to the column's kind.
    Scalar At(std::uint64_t segment) const;
  };
  std::vector<Column> columns;
  std::vector<SegmentFailure> failures;
  SegmentSummary summary;
};

}  // namespace warpfold
