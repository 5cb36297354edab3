// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Translates between the client's types and the protocol's messages. Internal, and used by the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/result.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// "sum" for OPERATOR_SUM. The names are those of the protocol's enum: there is no second list.
std::string OperatorName(v1::Operator op);
std::vector<std::string> OperatorNames();

// "last_block" for ALGORITHM_LAST_BLOCK.
std::string AlgorithmName(v1::Algorithm algorithm);
std::vector<std::string> AlgorithmNames();

// What a server supports, by name. A newer one may have operators, algorithms and types that this client does
// not know: they are left out.
struct ServedOperator {
  std::string name;
  std::vector<std::string> scalar_types;  // "int32"
  std::vector<std::string> matrix_types;
};
std::vector<ServedOperator> ServedOperators(const v1::GetServerInfoResponse& info);
std::vector<std::string> ServedAlgorithms(const v1::GetServerInfoResponse& info);

// UNIMPLEMENTED (UNKNOWN_OPERATOR, UNSUPPORTED_ALGORITHM) for a name that the protocol does not have;
// INVALID_ARGUMENT (UNSUPPORTED_TYPE) for an invalid type, (BAD_HEADER) for a shape for which ElementBytes is
// 0. Everything else is left for the server to check.
absl::StatusOr<v1::ReductionSpec> ToProto(const Spec& spec, ElementType type);

// INTERNAL if the message contradicts itself or lacks a value.
absl::StatusOr<Reduction> FromProto(const v1::Reduction& reduction);
Timings TimingsFromProto(const v1::ServerTimings& timings);

// More than any server accepts, and far below what would overflow the size of an element.
inline constexpr std::uint32_t kMaxMatrixSide = 4096;

// Bytes of one element of a type that ToProto accepts: a scalar or a matrix. 0 if the shape has no entries,
// or a side over kMaxMatrixSide.
std::uint64_t ElementBytes(const Spec& spec, ElementType type);

}  // namespace warpfold
