// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/segment_session.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/segments.h"
#include "proto/error_reasons.h"
#include "server/core/bad_request.h"
#include "server/core/limits.h"
#include "server/core/slots/array_segment_reducer.h"
#include "server/core/slots/memory_segment_reducer.h"
#include "server/core/wire/messages.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);

absl::Status Invalid(absl::string_view reason, const char* field, absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason, absl::StrCat(field, " ", what),
                        {{"field", field}});
}

absl::Status Mismatch(const char* field, std::uint64_t says, absl::string_view what, std::uint64_t came) {
  return kernels::Error(
      absl::StatusCode::kDataLoss, reason::kCountMismatch,
      absl::StrCat(field, " says ", says, ", but ", came, " ", what),
      {{"field", field}, {"announced", absl::StrCat(says)}, {"received", absl::StrCat(came)}});
}

absl::Status TooManySegments(std::uint64_t max_stream_bytes) {
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kArrayTooLarge,
                        absl::StrCat("more lengths than max_stream_bytes = ", max_stream_bytes),
                        {{"limit", "max_stream_bytes"}, {"value", absl::StrCat(max_stream_bytes)}});
}

absl::Status TooManyLengths() {
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooManyLengths,
                        absl::StrCat("more than ", kMaxLengthsAhead, " lengths are ahead of their elements"),
                        {{"field", "lengths"}, {"value", absl::StrCat(kMaxLengthsAhead)}});
}

}  // namespace

absl::StatusOr<SegmentSession::StreamMessage> SegmentSession::Parse(ByteSlices message) {
  absl::StatusOr<ParsedSegmentsRequest> request = ParseReduceSegmentsRequest(message);
  if (!request.ok()) return request.status();
  StreamMessage parsed;
  if (auto* const chunk = std::get_if<ParsedChunk>(&*request)) {
    parsed.kind = MessageKind::kChunk;
    parsed.chunk = std::move(*chunk);
  } else if (auto* const commit = std::get_if<v1::SegmentsCommit>(&*request)) {
    parsed.kind = MessageKind::kCommit;
    parsed.commit = std::move(*commit->mutable_array());
    committed_segments_ = commit->segment_count();
  } else if (auto* const lengths = std::get_if<v1::SegmentLengths>(&*request)) {
    parsed.kind = MessageKind::kLengths;
    parsed_lengths_ = std::move(*lengths);
    parsed.length_bytes = parsed_lengths_.lengths().size();
  } else {
    parsed_header_ = std::get<v1::ReduceSegmentsHeader>(*std::move(request));
    if (parsed_header_.has_reference()) parsed.kind = MessageKind::kReference;
  }
  return parsed;
}

absl::StatusOr<ArraySession::Need> SegmentSession::OnEnd() {
  // There is no commit that says whether all lengths have come.
  if (reducer_ != nullptr && is_elsewhere() && !header_.has_segment_length()) {
    absl::Status status = CheckCounts(header_.reference().element_count(), header_.expected_segment_count());
    if (!status.ok()) return status;
  }
  return ArraySession::OnEnd();
}

absl::Status SegmentSession::Begin() {
  if (absl::Status status = CheckText("request_id", parsed_header_.request_id()); !status.ok()) return status;
  header_ = std::move(parsed_header_);
  absl::StatusOr<kernels::ReductionPlan> reduction = PlanFromProto(header_.spec());
  if (!reduction.ok()) return reduction.status();
  if (absl::Status status = kernels::CheckSegments(*reduction); !status.ok()) return status;
  reduction_ = *std::move(reduction);
  if (absl::Status status = CheckCut(); !status.ok()) return status;
  return is_elsewhere() ? BeginElsewhere() : BeginChunks();
}

absl::Status SegmentSession::CheckCut() const {
  const bool has_count = is_elsewhere() || header_.has_expected_element_count();
  const std::uint64_t count =
      is_elsewhere() ? header_.reference().element_count() : header_.expected_element_count();
  if (header_.has_results_reference() && !header_.has_expected_segment_count()) {
    return BadHeader("expected_segment_count", "must be set where there is a results_reference");
  }
  if (!header_.has_segment_length()) {
    if (!is_elsewhere() || header_.has_expected_segment_count()) return absl::OkStatus();
    return BadHeader("expected_segment_count",
                     "must be set where there is a reference and no segment_length");
  }
  const std::uint64_t length = header_.segment_length();
  if (length == 0) return BadHeader("segment_length", "must be 1 or more");
  // No array is larger than kMaxArrayBytes, so no segment can be longer.
  if (length > kMaxArrayBytes / reduction_->element_bytes()) {
    return BadHeader("segment_length", "is longer than any array",
                     kMaxArrayBytes / reduction_->element_bytes());
  }
  return has_count ? CheckProduct(count, length) : absl::OkStatus();
}

absl::Status SegmentSession::CheckProduct(std::uint64_t count, std::uint64_t length) const {
  const char* const count_field = is_elsewhere() ? "reference.element_count" : "expected_element_count";
  const std::uint64_t segments = header_.expected_segment_count();
  const bool has_segments = header_.has_expected_segment_count();
  if (count % length != 0) {
    // If no length at all fits the two others, the number of elements is at fault.
    if (has_segments && (segments == 0 || count % segments != 0)) {
      return BadHeader(count_field, absl::StrCat("must be ", length, " x ", segments,
                                                 ", the segment_length times the expected_segment_count"));
    }
    return BadHeader("segment_length",
                     absl::StrCat("of ", length, " does not divide the ", count_field, " of ", count));
  }
  if (has_segments && count / length != segments) {
    const char* const or_none = header_.has_results_reference() ? "" : ", or not set";
    return BadHeader("expected_segment_count", absl::StrCat("must be ", count / length, or_none));
  }
  return absl::OkStatus();
}

absl::Status SegmentSession::BeginChunks() {
  const std::uint64_t element_bytes = reduction_->element_bytes();
  const bool has_count = header_.has_expected_element_count();
  const std::uint64_t count = header_.expected_element_count();
  const std::uint64_t max_bytes = service_.limits.max_stream_bytes;
  if (has_count && count > max_bytes / element_bytes) return ArrayTooLarge(max_bytes);
  if (header_.has_segment_length()) {
    const std::uint64_t most = max_bytes / element_bytes / header_.segment_length();
    if (most == 0 || header_.expected_segment_count() > most) return ArrayTooLarge(max_bytes);
  } else if (header_.expected_segment_count() > max_bytes) {
    return TooManySegments(max_bytes);
  }
  absl::StatusOr<std::optional<ResultsMemory>> results = FindResults();
  if (!results.ok()) return results.status();
  auto reducer = std::make_unique<ArraySegmentReducer>(
      slots_, service_.clock, *reduction_,
      header_.has_segment_length() ? std::optional(header_.segment_length()) : std::nullopt, listener_,
      *std::move(results));
  sink_ = reducer.get();
  IncomingArray::Announced announced = {.element_bytes = element_bytes,
                                        .max_bytes = max_bytes,
                                        .count = has_count ? std::optional(count) : std::nullopt,
                                        .with_crc32c = header_.with_crc32c()};
  if (!has_count && header_.has_segment_length() && header_.has_expected_segment_count()) {
    announced.count = header_.expected_segment_count();
    announced.count_field = "expected_segment_count";
    announced.elements_each = header_.segment_length();
  }
  incoming_.emplace(*reducer, announced);
  reducer_ = std::move(reducer);
  return absl::OkStatus();
}

absl::Status SegmentSession::BeginElsewhere() {
  absl::Status status = CheckNoStream(header_.has_expected_element_count(), header_.with_crc32c());
  if (!status.ok()) return status;
  const v1::ArrayReference& reference = header_.reference();
  absl::StatusOr<std::shared_ptr<const NamedMemory>> memory =
      FindReferenced(service_.memories, reference, *reduction_, service_.clock);
  if (!memory.ok()) return memory.status();
  absl::StatusOr<std::optional<ResultsMemory>> results = FindResults();
  if (!results.ok()) return results.status();
  reducer_ = std::make_unique<MemorySegmentReducer>(
      slots_, service_.clock,
      MemorySegmentReducer::Options{.reduction = *reduction_,
                                    .segment_length = header_.has_segment_length()
                                                          ? std::optional(header_.segment_length())
                                                          : std::nullopt,
                                    .memory = *std::move(memory),
                                    .byte_offset = reference.byte_offset(),
                                    .element_count = reference.element_count(),
                                    .results = *std::move(results)},
      listener_);
  // The device need not wait for the end of the stream.
  return reducer_->TryFinish().status();
}

absl::StatusOr<std::optional<ResultsMemory>> SegmentSession::FindResults() const {
  if (!header_.has_results_reference()) return std::optional<ResultsMemory>();
  return FindResultsMemory(service_.memories, header_.results_reference(),
                           kernels::SegmentLayout(*reduction_).row_bytes(), header_.expected_segment_count(),
                           service_.clock);
}

std::uint64_t SegmentSession::MostElements() const {
  if (is_elsewhere()) return header_.reference().element_count();
  const std::uint64_t most = service_.limits.max_stream_bytes / reduction_->element_bytes();
  return header_.has_expected_element_count() ? header_.expected_element_count() : most;
}

absl::StatusOr<bool> SegmentSession::TakeLengths() {
  const std::string& bytes = parsed_lengths_.lengths();
  if (header_.has_segment_length()) {
    return Invalid(reason::kBadLengths, "lengths", "must not come where segment_length says them");
  }
  if (bytes.size() % kLengthBytes != 0) {
    return Invalid(reason::kBadLengths, "lengths", "must be a whole number of 8-byte values");
  }
  if (reducer_->waiting_lengths() + bytes.size() / kLengthBytes > kMaxLengthsAhead) return TooManyLengths();
  length_bytes_ += bytes.size();
  if (length_bytes_ / kLengthBytes > service_.limits.max_stream_bytes) {
    return TooManySegments(service_.limits.max_stream_bytes);
  }
  for (std::size_t at = 0; at < bytes.size(); at += kLengthBytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, kLengthBytes);
    if (absl::Status status = Announce(length); !status.ok()) return status;
  }
  return reducer_->PlaceLengths();
}

absl::Status SegmentSession::Announce(std::uint64_t length) {
  const std::uint64_t most = MostElements();
  if (length > most - announced_elements_) {
    if (!is_elsewhere() && !header_.has_expected_element_count()) {
      return ArrayTooLarge(service_.limits.max_stream_bytes);
    }
    return kernels::Error(absl::StatusCode::kDataLoss, reason::kCountMismatch,
                          absl::StrCat("the lengths add up to more than the ", most, " elements"),
                          {{"field", "lengths"}});
  }
  if (header_.has_expected_segment_count() && announced_segments_ == header_.expected_segment_count()) {
    return Mismatch("expected_segment_count", header_.expected_segment_count(), "lengths came",
                    announced_segments_ + 1);
  }
  announced_elements_ += length;
  ++announced_segments_;
  reducer_->Announce(length);
  return absl::OkStatus();
}

// Whether what was announced matches the numbers of elements and segments that came.
absl::Status SegmentSession::CheckCounts(std::uint64_t elements, std::uint64_t segments) const {
  if (announced_segments_ != segments) {
    return Mismatch(is_elsewhere() ? "expected_segment_count" : "commit.segment_count", segments,
                    "lengths came", announced_segments_);
  }
  if (announced_elements_ != elements) {
    return kernels::Error(
        absl::StatusCode::kDataLoss, reason::kCountMismatch,
        absl::StrCat("the lengths add up to ", announced_elements_, " elements, but there are ", elements),
        {{"field", "lengths"},
         {"announced", absl::StrCat(announced_elements_)},
         {"received", absl::StrCat(elements)}});
  }
  return absl::OkStatus();
}

absl::Status SegmentSession::OnCommitted() {
  const std::uint64_t elements = incoming_->received_bytes() / reduction_->element_bytes();
  if (header_.has_expected_segment_count() && header_.expected_segment_count() != committed_segments_) {
    return Mismatch("expected_segment_count", header_.expected_segment_count(), "were committed",
                    committed_segments_);
  }
  if (!header_.has_segment_length()) return CheckCounts(elements, committed_segments_);
  const std::uint64_t length = header_.segment_length();
  if (elements % length != 0) {
    return kernels::Error(absl::StatusCode::kDataLoss, reason::kCountMismatch,
                          absl::StrCat("the last segment has ", elements % length,
                                       " elements instead of the ", length, " that segment_length says"),
                          {{"field", "segment_length"},
                           {"announced", absl::StrCat(length)},
                           {"received", absl::StrCat(elements % length)}});
  }
  if (elements / length != committed_segments_) {
    return Mismatch("commit.segment_count", committed_segments_, "came", elements / length);
  }
  return absl::OkStatus();
}

std::uint64_t SegmentSession::array_bytes() const {
  if (incoming_.has_value() || reducer_ == nullptr) return ArraySession::array_bytes();
  return header_.reference().element_count() * reduction_->element_bytes();
}

void SegmentSession::Describe(absl::Time end, CallRecord* record) const {
  ArraySession::Describe(end, record);
  if (reducer_ == nullptr) return;
  record->reduction = reduction_;
  record->stages = StagesOf(reducer_->timings(), ReceiveTimeUntil(end));
}

absl::StatusOr<std::string> SegmentSession::Response() {
  reducer_->EndMemory();
  v1::ReduceSegmentsResponse response;
  v1::SegmentSummary& summary = *response.mutable_summary();
  summary.set_segment_count(reducer_->segment_count());
  summary.set_element_count(array_bytes() / reduction_->element_bytes());
  summary.set_error_count(reducer_->error_count());
  summary.set_device(service_.backend.device());
  *summary.mutable_timings() = TimingsToProto(reducer_->timings(), receive_time());
  return response.SerializeAsString();
}

void SegmentSession::Release() {
  ArraySession::Release();
  // A client may take a long time to read the answer.
  v1::ReduceSegmentsHeader().Swap(&parsed_header_);
  v1::ReduceSegmentsHeader().Swap(&header_);
  v1::SegmentLengths().Swap(&parsed_lengths_);
  // It is not destroyed: this may be the reducer's own call of its listener.
  if (reducer_ != nullptr) reducer_->Release();
}

}  // namespace warpfold::server
