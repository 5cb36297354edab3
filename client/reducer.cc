// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/reducer.h"

#include <algorithm>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "client/array_stream.h"
#include "client/merge.h"
#include "client/raw_call.h"
#include "client/retry.h"
#include "client/wire.h"

namespace warpfold {
namespace {

// Arrays up to this size go in a single message: no stream to set up.
constexpr std::uint64_t kSmallArrayBytes = 64 << 10;
constexpr char kReduceArrayMethod[] = "/warpfold.v1.ReductionService/ReduceArray";

absl::StatusOr<v1::Reduction> SendSmall(const ReduceJob& job, Connection& connection,
                                        const std::stop_token& stop) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = job.spec;
  request.set_request_id(job.options.request_id);
  const std::uint64_t bytes = job.element_count * job.element_bytes;

  LentMemory memory;  // outlives the call
  CallScope scope(connection, job.deadline, stop);
  RawCall call(scope, kReduceArrayMethod);
  call.WriteLast(ArrayMessage(request, job.source.slice(0, bytes, memory)));
  grpc::ByteBuffer buffer;
  if (absl::Status status = call.Finish(&buffer); !status.ok()) return status;
  if (job.options.on_sent) job.options.on_sent(bytes);
  v1::ReduceArrayResponse response;
  if (!Parse(std::move(buffer), response)) return absl::InternalError("the server's answer is not readable");
  return std::move(*response.mutable_reduction());
}

// One attempt at one stripe.
absl::StatusOr<v1::Reduction> SendStripe(const ReduceJob& job, const Stripe& stripe, bool return_state,
                                         Connection& connection, const std::stop_token& stop,
                                         bool& took_data) {
  v1::ReduceHeader header;
  *header.mutable_spec() = job.spec;
  header.set_first_element(stripe.first_element);
  header.set_return_state(return_state);
  header.set_expected_element_count(stripe.element_count);
  header.set_request_id(job.options.request_id);

  LentMemory memory;  // outlives the call
  ArrayStream stream(connection, job.deadline, stop, job.options, header);
  const std::uint64_t end = (stripe.first_element + stripe.element_count) * job.element_bytes;
  for (std::uint64_t offset = stripe.first_element * job.element_bytes; offset < end;) {
    const std::size_t size = std::min<std::uint64_t>(job.options.chunk_bytes, end - offset);
    if (!stream.Send(job.source.slice(offset, size, memory))) break;
    offset += size;
  }
  absl::StatusOr<v1::Reduction> reduction = stream.Finish(job.element_bytes);
  took_data = stream.took_data();
  return reduction;
}

absl::StatusOr<v1::Reduction> ReduceStripe(const ReduceJob& job, const Stripe& stripe, bool return_state,
                                           Connection& connection, const std::stop_token& stop) {
  RetryLoop retry(job.client_options, connection, job.deadline, stop);
  while (true) {
    bool took_data = false;
    absl::StatusOr<v1::Reduction> reduction =
        SendStripe(job, stripe, return_state, connection, stop, took_data);
    if (reduction.ok() || !retry.Again(reduction.status(), took_data)) return reduction;
  }
}

// The timings of streams that ran at the same time: of each phase the longest.
void KeepLonger(const v1::ServerTimings& from, v1::ServerTimings& to) {
  to.set_queue_ns(std::max(to.queue_ns(), from.queue_ns()));
  to.set_receive_ns(std::max(to.receive_ns(), from.receive_ns()));
  to.set_copy_ns(std::max(to.copy_ns(), from.copy_ns()));
  to.set_kernel_ns(std::max(to.kernel_ns(), from.kernel_ns()));
}

// The error that ended all stripes, not the cancellations that followed from it.
absl::Status FirstError(std::span<const absl::StatusOr<v1::Reduction>> partials) {
  absl::Status first;
  for (const absl::StatusOr<v1::Reduction>& partial : partials) {
    if (partial.ok()) continue;
    if (first.ok() || absl::IsCancelled(first)) first = partial.status();
  }
  return first;
}

}  // namespace

absl::StatusOr<v1::Reduction> ReduceOnOneStream(const ReduceJob& job, Connection& connection) {
  const bool small = job.element_count * job.element_bytes <= kSmallArrayBytes && !job.options.checksum;
  if (!small) return ReduceStripe(job, {0, job.element_count}, false, connection, job.options.stop);
  RetryLoop retry(job.client_options, connection, job.deadline, job.options.stop);
  while (true) {
    absl::StatusOr<v1::Reduction> reduction = SendSmall(job, connection, job.options.stop);
    if (reduction.ok() || !retry.Again(reduction.status(), /*took_data=*/false)) return reduction;
  }
}

absl::StatusOr<v1::Reduction> ReduceInStripes(const ReduceJob& job,
                                              std::span<const std::unique_ptr<Connection>> connections) {
  const std::vector<Stripe> stripes =
      CutIntoStripes(job.element_count, job.element_bytes, static_cast<int>(connections.size()));
  if (stripes.size() == 1) return ReduceOnOneStream(job, *connections.front());

  std::stop_source stop_all;
  const std::stop_callback forward_stop(job.options.stop, [&] { stop_all.request_stop(); });
  std::vector<absl::StatusOr<v1::Reduction>> partials(stripes.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < stripes.size(); ++i) {
      threads.emplace_back([&, i] {
        partials[i] = ReduceStripe(job, stripes[i], true, *connections[i], stop_all.get_token());
        if (!partials[i].ok()) stop_all.request_stop();
      });
    }
  }
  if (absl::Status status = FirstError(partials); !status.ok()) return status;

  std::vector<v1::PartialState> states;
  v1::ServerTimings timings;
  for (absl::StatusOr<v1::Reduction>& partial : partials) {
    KeepLonger(partial->timings(), timings);
    states.push_back(std::move(*partial->mutable_state()));
  }
  absl::StatusOr<v1::Reduction> merged = MergeStates(job, std::move(states), *connections.front());
  if (merged.ok()) *merged->mutable_timings() = timings;
  return merged;
}

}  // namespace warpfold
