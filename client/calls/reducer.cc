// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/reducer.h"

#include <algorithm>
#include <utility>

#include "client/calls/answer_check.h"
#include "client/calls/methods.h"
#include "client/calls/raw_call.h"
#include "client/calls/wire.h"
#include "client/connections/status.h"
#include "proto/limits.h"

namespace warpfold {
namespace {

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
  if (absl::Status status = call.Finish(&buffer); !status.ok()) return BlameSource(status, job.source);
  if (job.options.on_sent) job.options.on_sent(bytes);
  v1::ReduceArrayResponse response;
  if (absl::Status status = ParseAnswer(std::move(buffer), response); !status.ok()) return status;
  absl::Status status =
      CheckReduction(job.spec, {0, job.element_count}, /*state=*/false, response.reduction());
  if (!status.ok()) return status;
  return std::move(*response.mutable_reduction());
}

v1::ReduceHeader HeaderOf(const ReduceJob& job, const Stripe& stripe, bool return_state) {
  v1::ReduceHeader header;
  *header.mutable_spec() = job.spec;
  header.set_first_element(stripe.first_element);
  header.set_return_state(return_state);
  header.set_expected_element_count(stripe.element_count);
  header.set_request_id(job.options.request_id);
  return header;
}

}  // namespace

SliceSource SourceOf(std::span<const std::byte> data) {
  return {[data](std::uint64_t offset, std::size_t size, LentMemory& memory) {
            return memory.Lend(data.subspan(offset, size));
          },
          [data] { return CanBeRead(data); }};
}

SliceSource SourceOf(const Generator& generator) {
  return {[&generator](std::uint64_t offset, std::size_t size, LentMemory&) {
    OwnedChunk chunk = std::make_unique_for_overwrite<std::byte[]>(size);
    generator(offset, std::span(chunk.get(), size));
    return SliceOf(std::move(chunk), size);
  }};
}

absl::Status BlameSource(absl::Status status, const SliceSource& source) {
  if (!CouldNotRead(status) || !source.is_readable || source.is_readable()) return status;
  return absl::InvalidArgumentError(
      "the array's memory cannot be read: a mapped file under it has become shorter than the map");
}

grpc::Slice NextChunk(const ReduceJob& job, std::uint64_t* offset, std::uint64_t end, LentMemory& memory) {
  const std::size_t size = std::min(job.chunk_bytes, end - *offset);
  *offset += size;
  return job.source.slice(*offset - size, size, memory);
}

// Only calls for parts of an array need its name.
StripeCall::StripeCall(const ReduceJob& job, const Stripe& stripe, bool return_state,
                       const Connection& connection, const Interrupts& interrupts)
    : job_(job),
      offset_(stripe.first_element * job.element_bytes),
      end_(offset_ + stripe.element_count * job.element_bytes),
      memory_(connection),
      stream_(connection, job.deadline, interrupts, job.options, HeaderOf(job, stripe, return_state),
              return_state ? job.array : "") {}

bool StripeCall::SendChunk() {
  if (offset_ == end_ || !stream_.AwaitAdmission()) return false;
  return stream_.Send(NextChunk(job_, &offset_, end_, memory_));
}

absl::StatusOr<v1::Reduction> StripeCall::Finish() {
  absl::StatusOr<v1::Reduction> reduction = stream_.Finish();
  if (!reduction.ok()) return BlameSource(reduction.status(), job_.source);
  return reduction;
}

absl::StatusOr<v1::Reduction> SendStripe(const ReduceJob& job, const Stripe& stripe, bool return_state,
                                         const Connection& connection, const Interrupts& interrupts) {
  StripeCall call(job, stripe, return_state, connection, interrupts);
  while (call.SendChunk()) continue;
  call.Commit();
  return call.Finish();
}

absl::StatusOr<v1::Reduction> ReduceOnOneStream(const ReduceJob& job) {
  const bool is_small = job.element_count * job.element_bytes <= kSmallArrayBytes;
  const auto once = [&](const Connection& connection, const Interrupts& interrupts, Attempt&) {
    if (is_small && !job.options.checksum) return SendSmall(job, connection, interrupts);
    return SendStripe(job, {0, job.element_count}, /*return_state=*/false, connection, interrupts);
  };
  return RunJob(job, job.targets.Next(), once);
}

}  // namespace warpfold
