// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces arrays on a Warpfold server, or on several:
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
// returns; after that the client holds nothing of it, whatever the outcome. An array in a mapped file that
// was cut is INVALID_ARGUMENT where the system reads it: sent as it is, without TLS. Other calls on its
// connection are UNAVAILABLE, or tried again. Where the client must read it itself, as for TLS, a checksum or
// the border of a part's pieces, this process gets SIGBUS, as whoever reads such memory does.
//
// Streams: an array of 8 MiB or more is cut into shares, which as many connections as the servers advise take
// one after another, so that a slow one decides little; their partial states are merged. A connection sends
// its next share while the server finishes the one before. CallOptions::streams says how many connections.
//
// Servers: a Client of several sends each share to one of them, and other calls to them in turn. One that
// does not serve (UNAVAILABLE, as while it drains), or does not let a call connect within 3 s or its timeout,
// is left out for a second or more while another does. Questions about the servers go to all at once.
//
// Retries: a call that fails with UNAVAILABLE is tried again, with growing pauses or on another server (after
// DRAINING once by a new connection without a pause, since a name may have several addresses), as long as the
// server had taken nothing of the array (no chunk was written, or the server said DRAINING) and its data can
// be sent again: arrays in memory, generated arrays and calls without an array, and a Writer until it is
// open. A share of an array on several streams, a part of ReducePart and an array of at most 64 KiB without a
// checksum are sent again even if they were taken (docs/cpp.md has a table). So is a call that a full server
// refused (TOO_MANY_REDUCTIONS, TOO_MANY_CALLS), not before the time that the server says; once a share of an
// array has been reduced, and while another call of this client, except for Writers, sends that server an
// array, until the deadline, unless max_attempts is 1. A share that was refused beside another one of its
// connection is sent again when that is answered, and from then on each share of the array waits for the one
// before it. No pause goes beyond the deadline: the last failure is then the answer. A connection that broke
// is made again by the next call.
//
// Full servers: who was refused and calls again at once is kept back, so that the server has its threads for
// those whom it serves. For 5 s after a refusal calls to that server ask first: they send nothing of an array
// before they are admitted, which costs each a round trip. And a call on a connection whose last call was
// refused begins when the server said, a second later at most, or at once if its deadline comes before that.
// Connections that need not wait are taken first, so that callers who are served go on.
//
// Answers: INTERNAL for an answer that does not match the request (operators, elements, kinds of values).
//
// Threads: all methods may be called from any thread at the same time. The destructor must not run
// before calls have returned and Writers are gone. Processes: gRPC 1.51 does not survive a fork, so a process
// that was forked must not use its parent's Client, nor one of its own if its parent had one.
//
// Speed: a program that sends much, or from many threads, calls TuneGrpc (tune_grpc.h) at the start of main.
//
// Callbacks: what a generator, a visitor, on_sent or keep_going throws ends the call, and comes out of the
// method on the thread that called it, on however many streams the array goes. A Writer is then to be
// destroyed. A generator or a visitor that is empty is INVALID_ARGUMENT. One that calls the same client with
// an array of its own may wait until the deadline at a full server: the places are those of the calls around
// it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/array_reference.h"
#include "client/operators.h"
#include "client/options.h"
#include "client/partial_state.h"
#include "client/result.h"
#include "client/segments.h"
#include "client/writer.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

struct ReduceJob;
struct SliceSource;
class Targets;

class Client {
 public:
  Client() : Client(kDefaultTarget) {}
  // Does not block: connections are made when first used. `target` is host:port, unix:/path, or any
  // other name that gRPC resolves. A name that is empty, without a port, or with one that is none, is told
  // by the calls: INVALID_ARGUMENT. A template, since a list of two literals is also the begin and the end of
  // a string.
  template <std::convertible_to<std::string> Name>
  explicit Client(const Name& target, ClientOptions options = {})
      : Client(std::vector<std::string>{target}, std::move(options)) {}
  // Several servers of the same v1 API, on which devices and backends does not matter; at least one, else
  // calls answer INVALID_ARGUMENT.
  explicit Client(std::vector<std::string> targets, ClientOptions options = {});
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

  // As above, for elements whose type is known only at run time. The bytes may have any alignment.
  absl::StatusOr<Reduction> ReduceBytes(const Spec& spec, ElementType type, std::span<const std::byte> data,
                                        const CallOptions& options = {});

  // As above, for an array that is computed while it is sent and is never in memory as a whole. `byte_count`
  // must be a whole number of elements.
  absl::StatusOr<Reduction> ReduceGenerated(const Spec& spec, ElementType type, std::uint64_t byte_count,
                                            const Generator& generator, const CallOptions& options = {});

  // Starts an array that arrives piece by piece and whose length need not be known, on one stream:
  // options.streams must be 1 or 0. Returns once a server has admitted the call, and until then tries
  // again as other calls do; a server that says nothing for a second is taken for one that has. What is
  // written then cannot be sent again. The Client must outlive the Writer.
  absl::StatusOr<Writer> OpenWriter(const Spec& spec, ElementType type, const CallOptions& options = {});

  // Reduces elements that the server can read by itself: none of their bytes is sent. The Client must have
  // one target, since a token belongs to one server. NOT_FOUND (UNKNOWN_MEMORY) if the array or the
  // registration has ended.
  absl::StatusOr<Reduction> ReduceReference(const Spec& spec, ElementType type,
                                            const ArrayReference& reference, const CallOptions& options = {});

  // Reduces each segment (segments.h) of an array of scalars, over one stream. Without a visitor the results
  // come as one table. Once a visitor has seen results, the array is not sent again.
  template <ElementRange Range>
  absl::StatusOr<SegmentTable> ReduceSegments(const Spec& spec, const Range& values, const SegmentCut& cut,
                                              const CallOptions& options = {}) {
    return CollectSegments([&](const SegmentVisitor& visitor) {
      return ReduceSegmentsOf(spec, ElementTypeOf<std::ranges::range_value_t<Range>>(),
                              std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))),
                              cut, visitor, options);
    });
  }
  absl::StatusOr<SegmentSummary> ReduceSegmentsOf(const Spec& spec, ElementType type,
                                                  std::span<const std::byte> data, const SegmentCut& cut,
                                                  const SegmentVisitor& visitor,
                                                  const CallOptions& options = {});
  // Reduces an array that is computed while it is sent; one thread at a time calls the generator.
  absl::StatusOr<SegmentSummary> ReduceSegmentsGenerated(const Spec& spec, ElementType type,
                                                         std::uint64_t byte_count, const Generator& generator,
                                                         const SegmentCut& cut, const SegmentVisitor& visitor,
                                                         const CallOptions& options = {});
  // Reduces an array that the server can read by itself. For a Client of one target.
  absl::StatusOr<SegmentSummary> ReduceSegmentsReference(const Spec& spec, ElementType type,
                                                         const ArrayReference& reference,
                                                         const SegmentCut& cut, const SegmentVisitor& visitor,
                                                         const CallOptions& options = {});
  // Runs `reduce`, which calls one of the three functions above with the visitor that it is given, and
  // answers all results as one table.
  static absl::StatusOr<SegmentTable> CollectSegments(
      const std::function<absl::StatusOr<SegmentSummary>(const SegmentVisitor&)>& reduce);

  // The state of a part of an array, whose elements are those of `pieces`, one behind the other, on one
  // stream; it is sent again as a share of an array is. `first_element` is the index of its first one in the
  // whole array, and a multiple of CutElements. The operators need not have a value of this part alone.
  absl::StatusOr<PartialState> ReducePart(const Spec& spec, ElementType type, std::uint64_t first_element,
                                          std::span<const std::span<const std::byte>> pieces,
                                          const CallOptions& options = {});
  // The values of the union of adjacent ranges, in array order, at least one: no gap, no overlap. Ranges of
  // no elements do not count, wherever they begin, except for the first.
  // INVALID_ARGUMENT (BAD_STATE) for other states, or if they are not of this spec and type; `ddof` and
  // `overflow`, which only values depend on, may differ.
  absl::StatusOr<Reduction> Merge(const Spec& spec, ElementType type, std::span<const PartialState> states,
                                  const CallOptions& options = {});
  // As Merge, but answers the state of the union instead of its values: so many states can be merged in
  // groups, and then the groups.
  absl::StatusOr<PartialState> MergeToState(const Spec& spec, ElementType type,
                                            std::span<const PartialState> states,
                                            const CallOptions& options = {});

  // Sends an array once and leaves it in the memory of the server's device, for ReduceReference. For a Client
  // of one target. `byte_count` of data must be a whole number of elements, matrices where there is a shape.
  // RESOURCE_EXHAUSTED (RESIDENT_FULL, OWNER_QUOTA; ARRAY_TOO_LARGE where no wait makes room for it);
  // UNIMPLEMENTED (NO_RESIDENT_ARRAYS). A call that ends by `keep_going`, its timeout or a broken connection
  // may have been served before: what was kept then, and whose token nobody learned, goes at the end of its
  // time_to_live.
  absl::StatusOr<ResidentArray> PutBytes(ElementType type, std::optional<MatrixShape> matrix_shape,
                                         std::span<const std::byte> data, const PutOptions& put = {},
                                         const CallOptions& options = {});
  // The same for an array that is computed while it is sent; one thread at a time calls the generator.
  absl::StatusOr<ResidentArray> PutGenerated(ElementType type, std::optional<MatrixShape> matrix_shape,
                                             std::uint64_t byte_count, const Generator& generator,
                                             const PutOptions& put = {}, const CallOptions& options = {});
  template <ElementRange Range>
  absl::StatusOr<ResidentArray> Put(const Range& values, const PutOptions& put = {},
                                    const CallOptions& options = {}) {
    return PutBytes(ElementTypeOf<std::ranges::range_value_t<Range>>(), std::nullopt,
                    std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))), put,
                    options);
  }

  // What the array of this token is. NOT_FOUND (UNKNOWN_MEMORY).
  absl::StatusOr<ResidentArray> GetArray(const std::string& token, const CallOptions& options = {});
  // The arrays that the server keeps, without their tokens: of one owner, or of all where it is empty.
  absl::StatusOr<std::vector<ResidentArray>> ListArrays(const std::string& owner = "",
                                                        const CallOptions& options = {});
  // NOT_FOUND (UNKNOWN_MEMORY); but OK where an attempt before it ended with UNAVAILABLE, since that one may
  // have deleted the array. Reductions that have begun go on.
  absl::Status DeleteArray(const std::string& token, const CallOptions& options = {});

  // What the server can do, on which device, and its limits; of several servers, the one that answers first.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options = {});

  // Whether the server takes calls, as its standard health service says; of several servers, whether at least
  // one does. An error if none answers. If all answer NOT_SERVING, or none is there, they are asked again,
  // four times within 1.5 s: a server that is restarted answers so, or closes the connection, shortly before
  // its name leads to another one.
  absl::StatusOr<bool> IsServing(const CallOptions& options = {});

 private:
  absl::StatusOr<Reduction> ReduceSource(const Spec& spec, ElementType type, std::uint64_t byte_count,
                                         const SliceSource& source, const CallOptions& options);
  absl::StatusOr<ResidentArray> PutSource(ElementType type, std::optional<MatrixShape> matrix_shape,
                                          std::uint64_t byte_count, const SliceSource& source,
                                          const PutOptions& put, const CallOptions& options);
  absl::StatusOr<SegmentSummary> ReduceSegmentsSource(const Spec& spec, ElementType type,
                                                      std::uint64_t byte_count, const SliceSource& source,
                                                      const SegmentCut& cut, const SegmentVisitor& visitor,
                                                      const CallOptions& options);
  absl::StatusOr<v1::Reduction> MergeAll(const Spec& spec, ElementType type,
                                         std::span<const PartialState> states, const CallOptions& options,
                                         bool return_state);
  // A job that begins now, of an array whose size is to be set.
  ReduceJob JobOf(const v1::ReductionSpec& spec, const SliceSource& source, const CallOptions& options) const;
  // At most this many, over all connections to all targets.
  int most_streams() const;
  // What every call owes before anything is sent; for calls about what stays with one server also that one.
  absl::Status CheckCall(const CallOptions& options) const;
  absl::Status CheckCallOfOneTarget(const CallOptions& options) const;

  ClientOptions options_;
  absl::Status targets_status_;
  std::unique_ptr<Targets> targets_;
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
