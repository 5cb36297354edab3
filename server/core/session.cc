// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/core/session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/core/messages.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;

MessageKind KindOf(const ParsedRequest& request) {
  if (std::holds_alternative<v1::ReduceHeader>(request)) return MessageKind::kHeader;
  if (std::holds_alternative<ParsedChunk>(request)) return MessageKind::kChunk;
  return MessageKind::kCommit;
}

bool IsEmptyChunk(const ParsedRequest& request) {
  const auto* chunk = std::get_if<ParsedChunk>(&request);
  return chunk != nullptr && TotalBytes(chunk->data) == 0;
}

absl::Status BadOrder(StreamState state) {
  constexpr absl::string_view kExpected[kStreamStates] = {
      "the first message must be a header", "after the header come chunks and one commit",
      "nothing may come after the commit", "the stream has been answered"};
  return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_ORDER",
                        kExpected[static_cast<std::size_t>(state)]);
}

absl::Status Mismatch(const char* field, std::uint64_t announced, std::uint64_t received) {
  return kernels::Error(
      absl::StatusCode::kDataLoss, "COUNT_MISMATCH",
      absl::StrCat(field, " says ", announced, ", but ", received, " arrived"),
      {{"field", field}, {"announced", absl::StrCat(announced)}, {"received", absl::StrCat(received)}});
}

absl::Status ChecksumMismatch(const char* field) {
  return kernels::Error(absl::StatusCode::kDataLoss, "CHECKSUM_MISMATCH",
                        absl::StrCat(field, " does not match the bytes that arrived"), {{"field", field}});
}

// The state of a named algorithm is not canonical: it must be that of the whole array, and not leave.
absl::Status CheckNoStripe(const v1::ReduceHeader& header) {
  const auto refuse = [](const char* field, absl::string_view what) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                          absl::StrCat(field, what, " where an algorithm is named"), {{"field", field}});
  };
  if (header.first_element() != 0) return refuse("first_element", " must be 0");
  if (header.return_state()) return refuse("return_state", " must not be set");
  return absl::OkStatus();
}

absl::Status CheckAlgorithm(const Service& service, const kernels::Reduction& reduction) {
  const kernels::Algorithm algorithm = reduction.spec().algorithm;
  if (service.backend.Supports(algorithm)) return absl::OkStatus();
  const std::string name = kernels::AlgorithmName(algorithm);
  return kernels::Error(absl::StatusCode::kUnimplemented, "UNSUPPORTED_ALGORITHM",
                        absl::StrCat("this device has no algorithm ", name), {{"algorithm", name}});
}

absl::Status ArrayTooLarge(std::uint64_t max_stream_bytes) {
  return kernels::Error(absl::StatusCode::kResourceExhausted, "ARRAY_TOO_LARGE",
                        absl::StrCat("the array exceeds max_stream_bytes = ", max_stream_bytes),
                        {{"limit", "max_stream_bytes"}, {"value", absl::StrCat(max_stream_bytes)}});
}

}  // namespace

absl::Status CheckRequestId(const std::string& request_id) {
  const bool printable = std::all_of(request_id.begin(), request_id.end(),
                                     [](unsigned char c) { return absl::ascii_isprint(c); });
  if (printable && request_id.size() <= kMaxRequestIdBytes) return absl::OkStatus();
  return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                        "request_id must be at most 128 printable ASCII characters",
                        {{"field", "request_id"}});
}

absl::StatusOr<Session::Need> Session::OnMessage(Message message) {
  absl::StatusOr<ParsedRequest> request = ParseReduceRequest(message.slices);
  if (!request.ok()) return request.status();
  made_progress_ = !IsEmptyChunk(*request);
  const StreamState before = state_;
  const Transition transition = Next(state_, KindOf(*request));
  state_ = transition.next;
  return Act(transition.action, before, *std::move(request), std::move(message));
}

absl::StatusOr<Session::Need> Session::Act(Action action, StreamState before, ParsedRequest request,
                                           Message message) {
  absl::Status status;
  switch (action) {
    case Action::kBegin:
      status = Begin(std::get<v1::ReduceHeader>(std::move(request)));
      break;
    case Action::kTake:
      return Take(std::get<ParsedChunk>(std::move(request)), std::move(message));
    case Action::kCompare:
      status = Compare(std::get<v1::ReduceCommit>(request));
      break;
    default:
      status = BadOrder(before);
      break;
  }
  if (!status.ok()) return status;
  return Need::kMessage;
}

absl::StatusOr<Session::Need> Session::OnEnd() {
  const StreamState before = state_;
  const Transition transition = Next(state_, MessageKind::kEnd);
  state_ = transition.next;
  switch (transition.action) {
    case Action::kAnswer:
      finishing_ = true;
      return TryFinish();
    case Action::kTruncated:
      return kernels::Error(absl::StatusCode::kDataLoss, "NO_COMMIT",
                            "the stream ended before a commit: the array may be truncated");
    default:
      return BadOrder(before);
  }
}

absl::StatusOr<Session::Need> Session::OnArray(Message message) {
  absl::StatusOr<ParsedArray> array = ParseReduceArrayRequest(message.slices);
  if (!array.ok()) return array.status();
  v1::ReduceHeader header;
  header.mutable_spec()->Swap(array->request.mutable_spec());
  header.set_request_id(array->request.request_id());
  if (absl::Status status = Begin(std::move(header)); !status.ok()) return status;
  const std::uint64_t bytes = TotalBytes(array->data.data);
  if (bytes % reducer_->state().reduction().element_bytes() != 0) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_MESSAGE",
                          absl::StrCat("data must be a whole number of elements of ",
                                       reducer_->state().reduction().element_bytes(), " bytes"),
                          {{"field", "data"}});
  }
  state_ = StreamState::kDone;
  finishing_ = true;
  return Take(std::move(array->data), std::move(message));
}

absl::StatusOr<Session::Need> Session::Resume() {
  if (!reducer_->status().ok()) return reducer_->status();
  if (pending_.has_value()) return Place();
  if (finishing_) return TryFinish();
  if (state_ == StreamState::kCommitted) {
    if (absl::Status status = reducer_->TryFinish().status(); !status.ok()) return status;
  }
  return Need::kMessage;
}

void Session::Release() {
  pending_.reset();
  // Not destroyed: this may be the reducer's own call of its listener.
  if (reducer_.has_value()) reducer_->Release();
}

absl::Status Session::Begin(v1::ReduceHeader header) {
  begin_ = service_.clock();
  if (absl::Status status = CheckRequestId(header.request_id()); !status.ok()) return status;
  header_ = std::move(header);
  const absl::StatusOr<kernels::Reduction> reduction = ReductionFromProto(header_.spec());
  if (!reduction.ok()) return reduction.status();
  if (absl::Status status = CheckHeader(*reduction); !status.ok()) return status;
  const std::uint64_t least_bytes = header_.has_expected_element_count()
                                        ? header_.expected_element_count() * reduction->element_bytes()
                                        : 0;
  reducer_.emplace(
      share_, service_.clock,
      ArrayReducer::Options{
          .reduction = *reduction,
          .first_element = header_.first_element(),
          .crossover_bytes = std::max(service_.cpu_crossover_bytes, service_.crossovers.BytesFor(*reduction)),
          .least_bytes = least_bytes},
      listener_);
  return absl::OkStatus();
}

absl::Status Session::CheckHeader(const kernels::Reduction& reduction) const {
  if (absl::Status status = CheckAlgorithm(service_, reduction); !status.ok()) return status;
  if (!reduction.canonical()) {
    if (absl::Status status = CheckNoStripe(header_); !status.ok()) return status;
  }
  const std::uint64_t max_first = service_.limits.max_first_byte() / reduction.element_bytes();
  if (header_.first_element() % reduction.leaf_elements() != 0 || header_.first_element() > max_first) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                          absl::StrCat("first_element must be a multiple of ", reduction.leaf_elements(),
                                       ", at most ", max_first),
                          {{"field", "first_element"}});
  }
  if (header_.has_expected_element_count() &&
      header_.expected_element_count() > service_.limits.max_stream_bytes / reduction.element_bytes()) {
    return ArrayTooLarge(service_.limits.max_stream_bytes);
  }
  return absl::OkStatus();
}

absl::Status Session::CheckSize(std::uint64_t chunk_bytes) const {
  if (chunk_bytes > service_.limits.max_stream_bytes - received_bytes_) {
    return ArrayTooLarge(service_.limits.max_stream_bytes);
  }
  if (!header_.has_expected_element_count()) return absl::OkStatus();
  const std::uint64_t element_bytes = reducer_->state().reduction().element_bytes();
  if (received_bytes_ + chunk_bytes > header_.expected_element_count() * element_bytes) {
    return Mismatch("expected_element_count", header_.expected_element_count(),
                    (received_bytes_ + chunk_bytes) / element_bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<Session::Need> Session::Take(ParsedChunk chunk, Message message) {
  const std::uint64_t chunk_bytes = TotalBytes(chunk.data);
  if (absl::Status status = CheckSize(chunk_bytes); !status.ok()) return status;
  received_bytes_ += chunk_bytes;
  pending_.emplace(Pending{.message = std::move(message), .chunk = std::move(chunk), .crc32c = {}});
  return Place();
}

absl::StatusOr<Session::Need> Session::Place() {
  Pending& pending = *pending_;
  while (pending.slice < pending.chunk.data.size()) {
    const ByteSlice rest = pending.chunk.data[pending.slice].subspan(pending.offset);
    const absl::StatusOr<std::size_t> placed = reducer_->Append(rest);
    if (!placed.ok()) return placed.status();
    Checksum(rest.first(*placed));
    if (*placed < rest.size()) {
      pending.offset += *placed;
      return Need::kDevice;
    }
    ++pending.slice;
    pending.offset = 0;
  }
  absl::Status status = EndChunk();
  pending_.reset();
  if (!status.ok()) return status;
  if (finishing_) return TryFinish();
  status = reducer_->Pause();
  return status.ok() ? absl::StatusOr<Need>(Need::kMessage) : status;
}

// The bytes are in the cache: they have just been placed.
void Session::Checksum(ByteSlice placed) {
  if (pending_->chunk.crc32c.has_value()) {
    pending_->crc32c.Extend(placed);
  } else if (header_.with_crc32c()) {
    crc32c_.Extend(placed);
  }
}

absl::Status Session::EndChunk() {
  if (!pending_->chunk.crc32c.has_value()) return absl::OkStatus();
  const std::uint32_t crc32c = pending_->crc32c.value();
  if (header_.with_crc32c()) crc32c_.ExtendBy(crc32c, TotalBytes(pending_->chunk.data));
  return crc32c == *pending_->chunk.crc32c ? absl::OkStatus() : ChecksumMismatch("chunk.crc32c");
}

absl::Status Session::Compare(const v1::ReduceCommit& commit) {
  if (commit.byte_count() != received_bytes_) {
    return Mismatch("commit.byte_count", commit.byte_count(), received_bytes_);
  }
  if (absl::Status status = CompareElements(commit.element_count()); !status.ok()) return status;
  if (commit.has_crc32c() != header_.with_crc32c()) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                          "commit.crc32c must be there exactly where header.with_crc32c announces it",
                          {{"field", "with_crc32c"}});
  }
  if (commit.has_crc32c() && commit.crc32c() != crc32c_.value()) return ChecksumMismatch("commit.crc32c");
  receive_ = service_.clock() - begin_;
  // The device need not wait for the end of the stream.
  return reducer_->TryFinish().status();
}

absl::Status Session::CompareElements(std::uint64_t announced) const {
  const std::uint64_t element_bytes = reducer_->state().reduction().element_bytes();
  const std::uint64_t elements = received_bytes_ / element_bytes;
  if (received_bytes_ % element_bytes != 0) {
    return kernels::Error(
        absl::StatusCode::kDataLoss, "COUNT_MISMATCH",
        absl::StrCat("the array ends inside element ", elements, " of ", element_bytes, " bytes"),
        {{"field", "commit.byte_count"}});
  }
  if (announced != elements) return Mismatch("commit.element_count", announced, elements);
  if (header_.has_expected_element_count() && header_.expected_element_count() != elements) {
    return Mismatch("expected_element_count", header_.expected_element_count(), elements);
  }
  return absl::OkStatus();
}

absl::StatusOr<Session::Need> Session::TryFinish() {
  const absl::StatusOr<bool> finished = reducer_->TryFinish();
  if (!finished.ok()) return finished.status();
  return *finished ? Need::kNothing : Need::kDevice;
}

absl::StatusOr<v1::Reduction> Session::Result() const {
  v1::Reduction result;
  if (absl::Status status = FillReduction(reducer_->state(), header_.return_state(), &result); !status.ok()) {
    return status;
  }
  result.set_device(service_.backend.device());
  const ReducerTimings& timings = reducer_->timings();
  v1::ServerTimings& out = *result.mutable_timings();
  out.set_queue_ns(absl::ToInt64Nanoseconds(timings.queue));
  out.set_receive_ns(absl::ToInt64Nanoseconds(receive_));
  out.set_copy_ns(absl::ToInt64Nanoseconds(timings.copy));
  out.set_kernel_ns(absl::ToInt64Nanoseconds(timings.kernel));
  return result;
}

}  // namespace warpfold::server
