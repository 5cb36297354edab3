// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "server/messages.h"

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

}  // namespace

absl::Status CheckRequestId(const std::string& request_id) {
  const bool printable = std::all_of(request_id.begin(), request_id.end(),
                                     [](unsigned char c) { return absl::ascii_isprint(c); });
  if (printable && request_id.size() <= kMaxRequestIdBytes) return absl::OkStatus();
  return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                        "request_id must be at most 128 printable ASCII characters",
                        {{"field", "request_id"}});
}

absl::Status CheckAlgorithm(const Engine& engine, const kernels::Reduction& reduction) {
  const kernels::Algorithm algorithm = reduction.spec().algorithm;
  if (engine.backend.Supports(algorithm)) return absl::OkStatus();
  const std::string name = kernels::AlgorithmName(algorithm);
  return kernels::Error(absl::StatusCode::kUnimplemented, "UNSUPPORTED_ALGORITHM",
                        absl::StrCat("this device has no algorithm ", name), {{"algorithm", name}});
}

absl::Status ArrayTooLarge(std::uint64_t max_stream_bytes) {
  return kernels::Error(absl::StatusCode::kResourceExhausted, "ARRAY_TOO_LARGE",
                        absl::StrCat("the array exceeds max_stream_bytes = ", max_stream_bytes),
                        {{"limit", "max_stream_bytes"}, {"value", absl::StrCat(max_stream_bytes)}});
}

void FillServerPart(const Engine& engine, const ReducerTimings& timings, absl::Duration receive,
                    v1::Reduction* reduction) {
  reduction->set_device(engine.backend.device());
  v1::ServerTimings& out = *reduction->mutable_timings();
  out.set_queue_ns(absl::ToInt64Nanoseconds(timings.queue));
  out.set_receive_ns(absl::ToInt64Nanoseconds(receive));
  out.set_copy_ns(absl::ToInt64Nanoseconds(timings.copy));
  out.set_kernel_ns(absl::ToInt64Nanoseconds(timings.kernel));
}

absl::Status Session::OnMessage(ByteSlices message) {
  if (call_.stopped()) return call_.status();
  absl::StatusOr<ParsedRequest> request = ParseRequest(message, kMaxMessageBytes);
  if (!request.ok()) return request.status();
  const StreamState before = state_;
  const Transition transition = Next(state_, KindOf(*request));
  state_ = transition.next;
  // Else a client could hold its place among the reductions with messages of a few bytes.
  const bool is_progress = !IsEmptyChunk(*request);
  absl::Status status = Act(transition.action, before, *std::move(request));
  // Afterwards: the time that the server took is not the client's.
  if (is_progress) call_.Progress(engine_.clock());
  return status;
}

absl::Status Session::Act(Action action, StreamState before, ParsedRequest request) {
  switch (action) {
    case Action::kBegin:
      return Begin(std::get<v1::ReduceHeader>(std::move(request)));
    case Action::kTake:
      return Take(std::get<ParsedChunk>(request));
    case Action::kCompare:
      return Compare(std::get<v1::ReduceCommit>(request));
    default:
      return BadOrder(before);
  }
}

absl::Status Session::OnPause() { return reducer_.has_value() ? reducer_->Drain() : absl::OkStatus(); }

absl::StatusOr<v1::ReduceResponse> Session::OnEnd() {
  if (call_.stopped()) return call_.status();
  const StreamState before = state_;
  const Transition transition = Next(state_, MessageKind::kEnd);
  state_ = transition.next;
  switch (transition.action) {
    case Action::kAnswer:
      return Answer();
    case Action::kTruncated:
      return kernels::Error(absl::StatusCode::kDataLoss, "NO_COMMIT",
                            "the stream ended before a commit: the array may be truncated");
    default:
      return BadOrder(before);
  }
}

absl::Status Session::Begin(v1::ReduceHeader header) {
  begin_ = engine_.clock();
  if (absl::Status status = CheckRequestId(header.request_id()); !status.ok()) return status;
  header_ = std::move(header);
  absl::StatusOr<kernels::Reduction> reduction = ReductionFromProto(header_.spec());
  if (!reduction.ok()) return reduction.status();
  if (absl::Status status = CheckHeader(*reduction); !status.ok()) return status;
  reduction_ = *std::move(reduction);
  reducer_.emplace(engine_, call_, *reduction_, header_.first_element());
  return absl::OkStatus();
}

absl::Status Session::CheckHeader(const kernels::Reduction& reduction) const {
  if (absl::Status status = CheckAlgorithm(engine_, reduction); !status.ok()) return status;
  if (!reduction.canonical()) {
    if (absl::Status status = CheckNoStripe(header_); !status.ok()) return status;
  }
  const std::uint64_t max_first =
      (kernels::kMaxArrayBytes - engine_.limits.max_stream_bytes) / reduction.element_bytes();
  if (header_.first_element() % reduction.leaf_elements() != 0 || header_.first_element() > max_first) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                          absl::StrCat("first_element must be a multiple of ", reduction.leaf_elements(),
                                       ", at most ", max_first),
                          {{"field", "first_element"}});
  }
  if (header_.has_expected_element_count() &&
      header_.expected_element_count() > engine_.limits.max_stream_bytes / reduction.element_bytes()) {
    return ArrayTooLarge(engine_.limits.max_stream_bytes);
  }
  return absl::OkStatus();
}

absl::Status Session::CheckSize(std::uint64_t chunk_bytes) const {
  if (chunk_bytes > engine_.limits.max_stream_bytes - received_bytes_) {
    return ArrayTooLarge(engine_.limits.max_stream_bytes);
  }
  if (!header_.has_expected_element_count()) return absl::OkStatus();
  const std::uint64_t element_bytes = reduction_->element_bytes();
  if (received_bytes_ + chunk_bytes > header_.expected_element_count() * element_bytes) {
    return Mismatch("expected_element_count", header_.expected_element_count(),
                    (received_bytes_ + chunk_bytes) / element_bytes);
  }
  return absl::OkStatus();
}

absl::Status Session::Take(const ParsedChunk& chunk) {
  const std::uint64_t chunk_bytes = TotalBytes(chunk.data);
  if (absl::Status status = CheckSize(chunk_bytes); !status.ok()) return status;
  proto::Crc32c chunk_crc32c;
  for (const ByteSlice slice : chunk.data) {
    // The checksums pull the slice into the cache, the copy finds it there.
    crc32c_.Extend(slice);
    if (chunk.crc32c.has_value()) chunk_crc32c.Extend(slice);
    if (absl::Status status = reducer_->Append(slice); !status.ok()) return status;
  }
  received_bytes_ += chunk_bytes;
  if (chunk.crc32c.has_value() && *chunk.crc32c != chunk_crc32c.value()) {
    return ChecksumMismatch("chunk.crc32c");
  }
  return absl::OkStatus();
}

absl::Status Session::Compare(const v1::ReduceCommit& commit) {
  if (commit.byte_count() != received_bytes_) {
    return Mismatch("commit.byte_count", commit.byte_count(), received_bytes_);
  }
  const std::uint64_t elements = received_bytes_ / reduction_->element_bytes();
  if (received_bytes_ % reduction_->element_bytes() != 0) {
    return kernels::Error(absl::StatusCode::kDataLoss, "COUNT_MISMATCH",
                          absl::StrCat("the array ends inside element ", elements, " of ",
                                       reduction_->element_bytes(), " bytes"),
                          {{"field", "commit.byte_count"}});
  }
  if (commit.element_count() != elements) {
    return Mismatch("commit.element_count", commit.element_count(), elements);
  }
  if (header_.has_expected_element_count() && header_.expected_element_count() != elements) {
    return Mismatch("expected_element_count", header_.expected_element_count(), elements);
  }
  if (commit.has_crc32c() && commit.crc32c() != crc32c_.value()) return ChecksumMismatch("commit.crc32c");
  receive_ = engine_.clock() - begin_;
  return absl::OkStatus();
}

absl::StatusOr<v1::ReduceResponse> Session::Answer() {
  const absl::StatusOr<kernels::PartialState> state = reducer_->Finish();
  if (!state.ok()) return state.status();
  v1::ReduceResponse response;
  v1::Reduction& reduction = *response.mutable_reduction();
  if (absl::Status status = FillReduction(*state, header_.return_state(), &reduction); !status.ok()) {
    return status;
  }
  FillServerPart(engine_, reducer_->timings(), receive_, &reduction);
  return response;
}

}  // namespace warpfold::server
