// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the service returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/array.h"
#include "client/operators.h"

namespace warpfold {

// Signed integers, unsigned integers and counts, floats and means, truth values.
using Scalar = std::variant<std::int64_t, std::uint64_t, double, bool>;

// Row-major; rows * columns entries of one kind.
struct Matrix {
  MatrixShape shape;
  std::vector<Scalar> entries;
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

// Several results of one operator, by name and in the order that docs/operators.md gives.
using Fields = std::vector<std::pair<std::string, Scalar>>;

using Value = std::variant<Scalar, Matrix, Fields>;

struct OperatorResult {
  std::string name;  // in lower case
  // OK, or why there is no value: OUT_OF_RANGE (OVERFLOW), INVALID_ARGUMENT (EMPTY_ARRAY). In a call with
  // several operators some may have no value; if none has one, the call fails instead.
  absl::Status status = {};
  Value value = {};
  std::optional<std::uint64_t> index = {};      // argmin, argmax; max_subarray_sum: of the first element
  std::optional<std::uint64_t> end_index = {};  // max_subarray_sum: of the element after the last one

  // The value as a C++ type: std::int64_t, std::uint64_t, double or bool.
  // `status` if there is none; FAILED_PRECONDITION if it is of another type.
  template <typename T>
  absl::StatusOr<T> As() const {
    if (!status.ok()) return status;
    const auto* scalar = std::get_if<Scalar>(&value);
    const T* typed = scalar == nullptr ? nullptr : std::get_if<T>(scalar);
    if (typed == nullptr) return absl::FailedPreconditionError(absl::StrCat(name, " is of another type"));
    return *typed;
  }
};

// Where the time went. The server's phases overlap. For an array on several streams each phase is summed over
// the shares of each stream, and the longest of these sums counts; the time to merge their states is only in
// `total`.
struct Timings {
  absl::Duration total;    // from the call to its return, as the caller sees it
  absl::Duration queue;    // waiting for a slot of the device
  absl::Duration receive;  // from the header to the commit
  absl::Duration copy;     // to the device; 0 on a CPU
  absl::Duration kernel;   // from the start of reducing to its end; on a CPU including waits for its threads
};

struct Reduction {
  std::vector<OperatorResult> results;  // in the order of Spec::operators
  std::uint64_t element_count = 0;
  // "cpu", "cuda:N" or a list of GPUs and their name, or simt's with its seed, such as "simt:7 (slow: kernels
  // executed on the CPU)": all devices of the server that responded, which for an array on several streams is
  // the one that merged their states.
  std::string device;
  Timings timings;
};

}  // namespace warpfold
