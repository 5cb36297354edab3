// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/calls/raw_call.h"
#include "client/calls/translate.h"
#include "client/calls/writer_state.h"
#include "client/connections/status.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

// Far below any server's patience, and far above the time that 1 MiB of a fast producer takes.
constexpr absl::Duration kLongestGathering = absl::Milliseconds(500);

// How long Write waits for a call whose time is over.
constexpr absl::Duration kLongestWaitForEnd = absl::Seconds(1);

}  // namespace

Writer::State::State(Targets& targets, const ClientOptions& client_options, const CallOptions& call_options,
                     std::uint64_t element_size)
    : options(call_options),
      deadline(DeadlineOf(options)),
      element_bytes(element_size),
      retry(targets, targets.Next(), client_options, deadline, InterruptsOf(options)) {}

absl::Status Writer::State::Open(const v1::ReduceHeader& header) {
  return retry.Run([&](const Connection& connection, const Interrupts& interrupts, Attempt&) {
    stream.emplace(connection, deadline, interrupts, options, header, /*array=*/"",
                   RawCall::Load::kArrayOnce);
    sent = SteadyNow();
    // Even if the server is not asked, the header is at least on its way.
    if (stream->AwaitAdmission() && stream->Flush()) return absl::OkStatus();
    const absl::Status status = stream->Finish().status();
    stream.reset();  // before its connection is destroyed
    return status;
  });
}

void Writer::State::SendChunk() {
  if (chunk_bytes == 0 || outcome.has_value()) return;
  // The server may have ended the call meanwhile. A small chunk is sent without a wait in which anything
  // would be received, so the writer looks for that end here.
  if (Run([&] { return stream->AwaitEnd(absl::ZeroDuration()); })) return Finish();
  const std::size_t size = std::exchange(chunk_bytes, 0);
  if (!Run([&] { return stream->Send(SliceOf(std::move(chunk), size)); })) Finish();
  sent = SteadyNow();
}

void Writer::State::Finish() {
  const absl::StatusOr<v1::Reduction> proto = Run([&] {
    stream->Commit(element_bytes);
    return stream->Finish();
  });
  outcome = proto.ok() ? FromProto(*proto) : proto.status();
  if (outcome->ok()) (*outcome)->timings.total = SteadyNow() - start;
}

absl::Status Writer::State::status() const {
  if (!outcome.has_value()) return absl::OkStatus();
  return outcome->ok() ? absl::FailedPreconditionError("the array has been committed") : outcome->status();
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

absl::Status Writer::Write(std::span<const std::byte> bytes) {
  const bool comes_late = SteadyNow() - state_->written >= kLongestGathering;
  while (!bytes.empty() && !state_->outcome.has_value()) {
    if (state_->chunk == nullptr) state_->chunk = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
    const std::size_t size = std::min(bytes.size(), kChunkBytes - state_->chunk_bytes);
    std::memcpy(state_->chunk.get() + state_->chunk_bytes, bytes.data(), size);
    state_->chunk_bytes += size;
    bytes = bytes.subspan(size);
    if (state_->chunk_bytes == kChunkBytes) state_->SendChunk();
  }
  if (comes_late) {
    // The next piece may, too: until then nobody would receive the server's leave to send the rest of this
    // one.
    Flush().IgnoreError();
  } else if (SteadyNow() - state_->sent >= kLongestGathering) {
    state_->SendChunk();
  }
  // While pieces are gathered, nothing is sent that would show this. The call ends by itself at about this
  // time.
  if (state_->IsOverdue()) AwaitEnd(kLongestWaitForEnd);
  state_->written = SteadyNow();
  return state_->status();
}

absl::Status Writer::Flush() {
  state_->SendChunk();
  State& state = *state_;
  if (!state.outcome.has_value() && !state.Run([&] { return state.stream->Flush(); })) state.Finish();
  return state_->status();
}

bool Writer::AwaitEnd(absl::Duration timeout) {
  State& state = *state_;
  if (!state.outcome.has_value() && state.Run([&] { return state.stream->AwaitEnd(timeout); }))
    state.Finish();
  return state.outcome.has_value();
}

absl::StatusOr<Reduction> Writer::Commit() {
  state_->SendChunk();
  if (!state_->outcome.has_value()) state_->Finish();
  return *state_->outcome;
}

}  // namespace warpfold
