// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces arrays on a Warpfold server, or on several:
//
//   warpfold::Client client("127.0.0.1:50051");
//   std::vector<std::int32_t> values = {3, 1, 4, 1, 5};
//   absl::StatusOr<std::int64_t> sum = client.Reduce(warpfold::kSum, values);
//
// and, for several operators in one pass over the data,
//
//   absl::StatusOr<warpfold::Reduction> all = client.Reduce({.operators = {"min", "argmax"}}, values);
//
// Memory: arrays are sent from the caller's memory without a copy. It must not change until the call
// returns; after that the client keeps no reference to it, whatever the outcome. For an array in a mapped
// file that was truncated, the call returns INVALID_ARGUMENT if the system reads the memory: if it is sent as
// it is, without TLS. Other calls on that connection return UNAVAILABLE, or are retried. If the client must
// read it itself, as for TLS, a checksum or the border between a part's pieces, this process gets SIGBUS,
// like any process that reads such memory.
//
// Streams: an array of 8 MiB or more is split into shares. As many connections as the servers advise take the
// shares one after another, so that a slow connection matters little; the partial states of the shares are
// merged. A connection sends its next share while the server finishes the previous one. CallOptions::streams
// says how many connections.
//
// Servers: a Client of several sends each share to one of them, and other calls to them in turn. A server
// that does not serve (UNAVAILABLE, for example while it drains), or to which a call cannot connect within 3
// s or its timeout, is skipped for a second or more while another one serves. Queries about the servers go to
// all of them at once.
//
// Retries: a call that fails with UNAVAILABLE is retried, with growing pauses or on another server (after
// DRAINING once over a new connection without a pause, since a name may have several addresses), even if the
// server already had the array: to reduce it once more does no harm. There are three exceptions: a Writer
// once it is open, which does not have the array any more; segments once results have arrived; and an array
// that is to be kept, which might be kept twice, unless the server had nothing of it or said DRAINING. A call
// that a full server rejected (TOO_MANY_REDUCTIONS, TOO_MANY_CALLS) is retried, too, but not before
// the time that the server gives; it is retried until the deadline once a share of an array has been reduced,
// and while another call of this client, except for Writers, sends that server an array, unless max_attempts
// is 1. A share that was rejected beside another one on its connection is sent again when the other one has
// finished, and from then on each share of the array waits for the one before it. No pause goes beyond the
// deadline: the call then returns the last failure, or DEADLINE_EXCEEDED if its time ran out in a pause.
// The next call makes a broken connection again.
//
// Full servers: a caller that was rejected and calls again at once is held back, so that the server's threads
// are free for the callers that it serves. For 5 s after a rejection, calls to that server ask first: they
// send nothing of an array before they are admitted, which costs each a round trip. And a call on a
// connection whose last call was rejected begins at the time that the server gave, a second later at most, or
// at once if its deadline comes before that. Connections that need not wait are used first, so that callers
// that are served can go on.
//
// Errors: an absl::Status with a machine-readable reason (error.h, whose ErrorText is for people).
//
// Answers: INTERNAL for a response that does not match the request (operators, elements, kinds of values).
//
// Threads: all methods may be called from any thread at the same time. The destructor must not run
// before calls have returned and Writers are gone. Processes: gRPC 1.51 does not survive a fork, so a forked
// process must not use its parent's Client, nor create a Client if its parent had one.
//
// Speed: a program that sends much data, or sends from many threads, should call TuneGrpc (tune_grpc.h) at
// the start of main.
//
// Callbacks: an exception from a generator, a visitor, on_sent or keep_going ends the call, and the method
// throws it on the thread that called it, however many streams the array uses. A Writer must then be
// destroyed. An empty generator or visitor is INVALID_ARGUMENT. A callback that calls the same client with
// another array may wait until the deadline at a full server, because the enclosing calls hold the places.
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
#include "client/error.h"
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
  // other name that gRPC resolves. If a name is empty, lacks a host, a path or a valid port, or has a scheme
  // that gRPC does not know, the calls return INVALID_ARGUMENT. If this is the process' first use of gRPC,
  // and it has too few file descriptors left for gRPC to start, they return RESOURCE_EXHAUSTED: make another
  // client later. This is a template because a list of two literals could also be the begin and the
  // end of a string.
  template <std::convertible_to<std::string> Name>
  explicit Client(const Name& target, ClientOptions options = {})
      : Client(std::vector<std::string>{target}, std::move(options)) {}
  // Several servers of the same v1 API, with any devices and backends; at least one, else calls return
  // INVALID_ARGUMENT.
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
  // options.streams must be 1 or 0. Returns once a server has admitted the call, and until then retries as
  // other calls do; a server that sends nothing for a second after the network has taken the first message is
  // assumed to have admitted it. What is written after that cannot be sent again. The Client must outlive the
  // Writer.
  absl::StatusOr<Writer> OpenWriter(const Spec& spec, ElementType type, const CallOptions& options = {});

  // Reduces elements that the server can read itself: none of their bytes is sent. The Client must have one
  // target, since a token belongs to one server. NOT_FOUND (UNKNOWN_MEMORY) if the array or the registration
  // has ended.
  absl::StatusOr<Reduction> ReduceReference(const Spec& spec, ElementType type,
                                            const ArrayReference& reference, const CallOptions& options = {});

  // Reduces each segment (segments.h) of an array of scalars, over one stream. Without a visitor the results
  // come as one table. Once a visitor has seen results, the array is sent again only if the visitor can begin
  // anew (SegmentCut::restarts).
  template <ElementRange Range>
  absl::StatusOr<SegmentTable> ReduceSegments(const Spec& spec, const Range& values, const SegmentCut& cut,
                                              const CallOptions& options = {}) {
    SegmentCut of_table = cut;
    of_table.restarts = true;
    return CollectSegments([&](const SegmentVisitor& visitor) {
      return ReduceSegmentsOf(spec, ElementTypeOf<std::ranges::range_value_t<Range>>(),
                              std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))),
                              of_table, visitor, options);
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
  // Reduces an array that the server can read itself. Only for a Client with one target.
  absl::StatusOr<SegmentSummary> ReduceSegmentsReference(const Spec& spec, ElementType type,
                                                         const ArrayReference& reference,
                                                         const SegmentCut& cut, const SegmentVisitor& visitor,
                                                         const CallOptions& options = {});
  // Runs `reduce`, which calls one of the three functions above with the visitor that it is given, and
  // returns all results as one table. The visitor can begin anew: set SegmentCut::restarts.
  static absl::StatusOr<SegmentTable> CollectSegments(
      const std::function<absl::StatusOr<SegmentSummary>(const SegmentVisitor&)>& reduce);

  // The state of a part of an array, whose elements are those of `pieces`, one after the other, sent on one
  // stream; it is sent again in the same cases as a share of an array. `first_element` is the index of its
  // first element in the whole array, and a multiple of CutElements. The operators need not have a value for
  // this part alone.
  absl::StatusOr<PartialState> ReducePart(const Spec& spec, ElementType type, std::uint64_t first_element,
                                          std::span<const std::span<const std::byte>> pieces,
                                          const CallOptions& options = {});
  // The values of the union of adjacent ranges, in array order, at least one: no gap, no overlap. Empty
  // ranges do not count, wherever they begin, except for the first. INVALID_ARGUMENT (BAD_STATE) for other
  // states, or if they are not of this spec and type; `ddof` and `wrap_overflow`, which affect only values,
  // may differ.
  absl::StatusOr<Reduction> Merge(const Spec& spec, ElementType type, std::span<const PartialState> states,
                                  const CallOptions& options = {});
  // As Merge, but returns the state of the union instead of its values: in this way many states can be merged
  // in groups, and then the groups.
  absl::StatusOr<PartialState> MergeToState(const Spec& spec, ElementType type,
                                            std::span<const PartialState> states,
                                            const CallOptions& options = {});

  // Sends an array once and leaves it in the memory of the server's device, for ReduceReference. Only for a
  // Client with one target. `byte_count` of data must be a whole number of elements, or of matrices if there
  // is a shape. RESOURCE_EXHAUSTED (RESIDENT_FULL, OWNER_QUOTA; ARRAY_TOO_LARGE if waiting cannot make room
  // for it); UNIMPLEMENTED (NO_RESIDENT_ARRAYS). A call that ends through `keep_going`, its timeout or a
  // broken connection may have been served before: the array that was kept then, whose token nobody learned,
  // is deleted at the end of its time_to_live.
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

  // These, too, are only for a Client with one target. Describes the array with this token. NOT_FOUND
  // (UNKNOWN_MEMORY).
  absl::StatusOr<ResidentArray> GetArray(const std::string& token, const CallOptions& options = {});
  // The arrays that the server keeps, without their tokens: those of one owner, or all if `owner` is empty.
  absl::StatusOr<std::vector<ResidentArray>> ListArrays(const std::string& owner = "",
                                                        const CallOptions& options = {});
  // NOT_FOUND (UNKNOWN_MEMORY); but OK if an earlier attempt ended with UNAVAILABLE, since that one may have
  // deleted the array. Reductions that have begun go on.
  absl::Status DeleteArray(const std::string& token, const CallOptions& options = {});

  // What the server can do, on which device, and its limits; with several servers, those of the one that
  // responds first.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options = {});

  // Whether the server accepts calls, according to its standard health service; with several servers, whether
  // at least one does. An error if none responds. If all report NOT_SERVING, or none is there, they are asked
  // again, four times within 1.5 s: a server that is restarted reports this, or closes the connection,
  // shortly before its name leads to another one.
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
  // A job that begins now, for an array whose size is set later.
  ReduceJob JobOf(const v1::ReductionSpec& spec, const SliceSource& source, const CallOptions& options) const;
  // At most this many, over all connections to all targets.
  int most_streams() const;
  // What every call checks before anything is sent; calls about something that stays with one server also
  // check that there is only one.
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
