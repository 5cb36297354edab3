// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces arrays on a Warpfold server:
//
//   warpfold::Client client("127.0.0.1:50051");
//   std::vector<std::int32_t> values = {3, 1, 4, 1, 5};
//   absl::StatusOr<std::int64_t> sum = client.Reduce(warpfold::kSum, values);
//
// and, for several operators over one pass of the data,
//
//   absl::StatusOr<warpfold::Reduction> all = client.Reduce({.operators = {"min", "argmax"}}, values);
//
// Memory: arrays are sent from the caller's memory without a copy. It must not change until the call
// returns; after that the client holds nothing of it, whatever the outcome.
//
// Retries: a call that fails with UNAVAILABLE is tried again, with growing pauses, as long as the server
// had taken nothing of the array (no chunk was written, or the server said DRAINING) and its data can be
// sent again: arrays in memory, generated arrays and calls without an array, but not a Writer. A
// connection that broke is made again by the next call.
//
// Threads: all methods may be called from any thread at the same time. The destructor must not run
// before calls have returned and Writers are gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/operators.h"
#include "client/options.h"
#include "client/result.h"
#include "client/writer.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

class Connection;
struct SliceSource;

// Writes bytes [offset, offset + buffer.size()) of the array, little-endian and row-major, to buffer.
// Called from as many threads as there are streams, in any order, and again after a retry.
using Generator = std::function<void(std::uint64_t offset, std::span<std::byte> buffer)>;

class Client {
 public:
  // Does not block: connections are made when first used. `target` is host:port, unix:/path, or any
  // other name that gRPC resolves.
  explicit Client(std::string target = kDefaultTarget, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The value of one operator over an array of scalars, with default parameters.
  template <Answer answer, ElementRange Range>
  absl::StatusOr<AnswerFor<answer, std::ranges::range_value_t<Range>>> Reduce(
      ScalarOperator<answer> op, const Range& values, const CallOptions& options = {});

  // The values of all of spec.operators over an array of scalars or, row-major, of matrices.
  template <ElementRange Range>
  absl::StatusOr<Reduction> Reduce(const Spec& spec, const Range& values, const CallOptions& options = {}) {
    return ReduceBytes(spec, ElementTypeOf<std::ranges::range_value_t<Range>>(),
                       std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))),
                       options);
  }

  // The same for elements whose type is known only at run time. Any alignment.
  absl::StatusOr<Reduction> ReduceBytes(const Spec& spec, ElementType type, std::span<const std::byte> data,
                                        const CallOptions& options = {});

  // The same for an array that is computed while it is sent, and never in memory as a whole.
  // `byte_count` must be a whole number of elements.
  absl::StatusOr<Reduction> ReduceGenerated(const Spec& spec, ElementType type, std::uint64_t byte_count,
                                            const Generator& generator, const CallOptions& options = {});

  // Starts an array that arrives piece by piece and whose length need not be known. options.streams
  // must be 1. The Client must outlive the Writer.
  absl::StatusOr<Writer> OpenWriter(const Spec& spec, ElementType type, const CallOptions& options = {});

  // What the server can do, on which device, and its limits.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options = {});

  // Whether the server takes calls, as its standard health service says.
  absl::StatusOr<bool> IsServing(const CallOptions& options = {});

 private:
  absl::StatusOr<Reduction> ReduceSource(const Spec& spec, ElementType type, std::uint64_t byte_count,
                                         const SliceSource& source, const CallOptions& options);
  Connection& NextConnection();

  ClientOptions options_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<std::size_t> next_connection_ = 0;
};

template <Answer answer, ElementRange Range>
absl::StatusOr<AnswerFor<answer, std::ranges::range_value_t<Range>>> Client::Reduce(
    ScalarOperator<answer> op, const Range& values, const CallOptions& options) {
  using T = std::ranges::range_value_t<Range>;
  const absl::StatusOr<Reduction> reduction =
      Reduce(Spec{.operators = {std::string(op.name)}}, values, options);
  if (!reduction.ok()) return reduction.status();
  const OperatorResult& result = reduction->results.front();
  if constexpr (answer == Answer::kLocated) {
    const absl::StatusOr<Natural<T>> value = result.As<Natural<T>>();
    if (!value.ok()) return value.status();
    return Located<Natural<T>>{*value, result.index.value_or(0)};
  } else {
    return result.As<AnswerFor<answer, T>>();
  }
}

}  // namespace warpfold
