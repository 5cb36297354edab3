// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array that can be sent again: on one stream or on several, with retries. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "client/lent_memory.h"
#include "client/options.h"
#include "client/stripes.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

struct SliceSource {
  // Bytes [offset, offset + size) of the array as a slice that lives by itself or is lent by `memory`.
  // Called from several threads.
  std::function<grpc::Slice(std::uint64_t offset, std::size_t size, LentMemory& memory)> slice;
};

struct ReduceJob {
  const v1::ReductionSpec& spec;
  std::uint64_t element_bytes = 0;
  std::uint64_t element_count = 0;
  const SliceSource& source;
  const ClientOptions& client_options;
  const CallOptions& options;
  absl::Time deadline;
};

// On one connection.
absl::StatusOr<v1::Reduction> ReduceOnOneStream(const ReduceJob& job, Connection& connection);

// A stripe on each of `connections`, merged on the first. The first error ends all stripes.
absl::StatusOr<v1::Reduction> ReduceInStripes(const ReduceJob& job,
                                              std::span<const std::unique_ptr<Connection>> connections);

}  // namespace warpfold
