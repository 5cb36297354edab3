// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/reducer.h"

#include <algorithm>
#include <utility>

#include "client/answer_check.h"
#include "client/array_stream.h"
#include "client/raw_call.h"
#include "client/retry.h"
#include "client/wire.h"

namespace warpfold {
namespace {

// Arrays up to this size go in a single message: no stream to set up.
constexpr std::uint64_t kSmallArrayBytes = 64 << 10;
constexpr char kReduceArrayMethod[] = "/warpfold.v1.ReductionService/ReduceArray";

absl::StatusOr<v1::Reduction> SendSmall(const ReduceJob& job, const Connection& connection,
                                        const Interrupts& interrupts) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = job.spec;
  request.set_request_id(job.options.request_id);
  const std::uint64_t bytes = job.element_count * job.element_bytes;

  LentMemory memory(connection);  // outlives the call
  CallScope scope(connection, job.deadline, interrupts);
  RawCall call(scope, kReduceArrayMethod);
  call.WriteLast(ArrayMessage(request, job.source.slice(0, bytes, memory)));
  grpc::ByteBuffer buffer;
  if (absl::Status status = call.Finish(&buffer); !status.ok()) return status;
  if (job.options.on_sent) job.options.on_sent(bytes);
  v1::ReduceArrayResponse response;
  if (!Parse(std::move(buffer), response)) return absl::InternalError("the server's answer is not readable");
  absl::Status status = CheckReduction(job.spec, {0, job.element_count}, false, response.reduction());
  if (!status.ok()) return status;
  return std::move(*response.mutable_reduction());
}

}  // namespace

absl::StatusOr<v1::Reduction> SendStripe(const ReduceJob& job, const Stripe& stripe, bool return_state,
                                         const Connection& connection, const Interrupts& interrupts,
                                         bool* took_data) {
  v1::ReduceHeader header;
  *header.mutable_spec() = job.spec;
  header.set_first_element(stripe.first_element);
  header.set_return_state(return_state);
  header.set_expected_element_count(stripe.element_count);
  header.set_request_id(job.options.request_id);

  LentMemory memory(connection);  // outlives the call
  // Only calls for parts of an array need its name.
  ArrayStream stream(connection, job.deadline, interrupts, job.options, header,
                     return_state ? job.array : "");
  const std::uint64_t end = (stripe.first_element + stripe.element_count) * job.element_bytes;
  for (std::uint64_t offset = stripe.first_element * job.element_bytes;
       offset < end && stream.AwaitAdmission();) {
    const std::size_t size = std::min<std::uint64_t>(job.chunk_bytes, end - offset);
    if (!stream.Send(job.source.slice(offset, size, memory))) break;
    offset += size;
  }
  absl::StatusOr<v1::Reduction> reduction = stream.Finish(job.element_bytes);
  *took_data = stream.took_data();
  return reduction;
}

absl::StatusOr<v1::Reduction> ReduceOnOneStream(const ReduceJob& job) {
  const bool small = job.element_count * job.element_bytes <= kSmallArrayBytes && !job.options.checksum;
  RetryLoop retry(job.targets, job.targets.Next(), job.client_options, job.deadline,
                  InterruptsOf(job.options));
  while (true) {
    Attempt attempt;
    absl::StatusOr<v1::Reduction> reduction =
        small ? SendSmall(job, retry.connection(), retry.interrupts())
              : SendStripe(job, {0, job.element_count}, false, retry.connection(), retry.interrupts(),
                           &attempt.took_data);
    if (reduction.ok() || !retry.Again(reduction.status(), attempt)) return reduction;
  }
}

}  // namespace warpfold
