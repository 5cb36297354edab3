// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/segment_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/raw_call.h"
#include "client/calls/translate.h"
#include "client/calls/wire.h"
#include "client/connections/status.h"
#include "proto/time_awake.h"

namespace warpfold {
namespace {

constexpr char kMethod[] = "/warpfold.v1.SegmentService/ReduceSegments";
// Half of the lengths that may be ahead of their elements: segments.proto says why.
constexpr std::size_t kLengthsAtOnce = 65'536;

std::optional<SegmentFailure::Reason> ReasonOf(v1::SegmentErrorReason reason) {
  switch (reason) {
    case v1::SEGMENT_ERROR_REASON_OVERFLOW:
      return SegmentFailure::Reason::kOverflow;
    case v1::SEGMENT_ERROR_REASON_EMPTY_ARRAY:
      return SegmentFailure::Reason::kEmptyArray;
    default:
      return std::nullopt;
  }
}

std::uint64_t SegmentCount(std::uint64_t element_count, const SegmentCut& cut) {
  return cut.length != 0 ? element_count / cut.length : cut.lengths.size();
}

bool IsBefore(const SegmentFailure& a, const SegmentFailure& b) {
  return std::pair(a.segment, a.op) < std::pair(b.segment, b.op);
}

// A call, its messages, and its responses.
class SegmentStream {
 public:
  SegmentStream(const ReduceJob& job, const SegmentCut& cut, const SegmentVisitor& visitor,
                const Connection& connection, const Interrupts& interrupts)
      : job_(job),
        memory_(connection),
        answer_(job.spec, visitor, job.element_count, cut),
        scope_(connection, job.deadline, interrupts),
        call_(
            scope_, kMethod, [this](grpc::ByteBuffer buffer) { return Take(std::move(buffer)); },
            RawCall::Load::kArray),
        chunks_(call_, job.options) {}

  // `more_follow`: this is not the only message.
  bool SendHeader(const v1::ReduceSegmentsHeader& header, bool more_follow) {
    v1::ReduceSegmentsRequest request;
    *request.mutable_header() = header;
    *request.mutable_header()->mutable_spec() = job_.spec;
    request.mutable_header()->set_request_id(job_.options.request_id);
    const grpc::ByteBuffer message = Serialize(request);
    sent_last_ = !more_follow;
    return (more_follow ? call_.Write(message) : call_.WriteLast(message)) && call_.AwaitAdmission();
  }
  bool SendLengths(std::span<const std::uint64_t> lengths) {
    v1::ReduceSegmentsRequest request;
    request.mutable_lengths()->set_lengths(lengths.data(), lengths.size_bytes());
    return Write(Serialize(request));
  }
  // Bytes [begin, end) of the array, as chunks.
  bool SendBytes(std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      if (!chunks_.Send(NextChunk(job_, &begin, end, memory_))) return false;
    }
    return true;
  }
  bool SendCommit(std::uint64_t segment_count) {
    v1::ReduceSegmentsRequest request;
    v1::SegmentsCommit& commit = *request.mutable_commit();
    *commit.mutable_array() = chunks_.Commit(job_.element_bytes);
    commit.set_segment_count(segment_count);
    return Write(Serialize(request));
  }

  absl::StatusOr<SegmentSummary> Finish(absl::Duration awake) {
    if (!sent_last_) call_.WritesDone();
    grpc::ByteBuffer ignored;
    const absl::Status status = call_.Finish(&ignored, awake);
    if (!answer_status_.ok()) return answer_status_;
    if (!status.ok()) return BlameSource(status, job_.source);
    return answer_.Finish();
  }

  bool delivered() const { return answer_.delivered(); }

 private:
  bool Write(const grpc::ByteBuffer& message) { return call_.Write(message); }
  bool Take(grpc::ByteBuffer buffer) {
    answer_status_ = answer_.Add(std::move(buffer));
    return answer_status_.ok();
  }

  const ReduceJob& job_;
  LentMemory memory_;  // outlives the call
  SegmentAnswer answer_;
  absl::Status answer_status_;
  CallScope scope_;
  RawCall call_;
  ChunkSender chunks_;
  bool sent_last_ = false;
};

v1::ReduceSegmentsHeader HeaderOf(const ReduceJob& job, const SegmentCut& cut) {
  v1::ReduceSegmentsHeader header;
  if (cut.length != 0) header.set_segment_length(cut.length);
  header.set_expected_segment_count(SegmentCount(job.element_count, cut));
  if (cut.results.has_value()) {
    header.mutable_results_reference()->set_token(cut.results->token);
    header.mutable_results_reference()->set_byte_offset(cut.results->byte_offset);
  }
  return header;
}

// Lengths of about a chunk, and then its elements.
bool SendRagged(const ReduceJob& job, std::span<const std::uint64_t> lengths, SegmentStream& stream) {
  std::uint64_t at = 0;
  while (!lengths.empty()) {
    std::uint64_t bytes = 0;
    std::size_t count = 0;
    while (count < std::min(lengths.size(), kLengthsAtOnce) && bytes < job.chunk_bytes) {
      bytes += lengths[count++] * job.element_bytes;
    }
    if (!stream.SendLengths(lengths.first(count)) || !stream.SendBytes(at, at + bytes)) return false;
    lengths = lengths.subspan(count);
    at += bytes;
  }
  return true;
}

}  // namespace

SegmentAnswer::SegmentAnswer(const v1::ReductionSpec& spec, const SegmentVisitor& visitor,
                             std::uint64_t element_count, const SegmentCut& cut)
    : spec_(spec),
      visitor_(visitor),
      cut_(cut),
      check_(spec, cut),
      expected_elements_(element_count),
      expected_segments_(SegmentCount(element_count, cut)) {}

absl::Status SegmentAnswer::Add(grpc::ByteBuffer buffer) {
  v1::ReduceSegmentsResponse response;
  if (absl::Status status = ParseAnswer(std::move(buffer), response); !status.ok()) return status;
  if (summary_.has_value()) return MakeMismatch("a response behind the summary");
  if (response.has_layout()) return AddLayout(response.layout());
  if (columns_.empty()) return MakeMismatch("results before their layout");
  if (response.has_results()) return AddResults(response.results());
  if (!response.has_summary()) return MakeMismatch("an empty response");
  summary_ = response.summary();
  return absl::OkStatus();
}

absl::Status SegmentAnswer::AddLayout(const v1::SegmentLayout& layout) {
  if (!columns_.empty()) return MakeMismatch("a second layout");
  if (absl::Status status = CheckLayout(spec_, layout); !status.ok()) return status;
  for (const v1::SegmentColumn& column : layout.columns()) {
    std::optional<SegmentColumn> known = FromProto(column);
    if (!known.has_value()) return MakeMismatch("a column of an unknown kind");
    columns_.push_back(*std::move(known));
  }
  visitor_({.columns = columns_, .values = {}, .failures = {}});
  return absl::OkStatus();
}

absl::Status SegmentAnswer::AddResults(const v1::SegmentResults& results) {
  const std::uint64_t count = results.segment_count();
  // Values that are written to memory do not come here.
  const std::size_t row_bytes = cut_.results.has_value() ? 0 : columns_.size() * sizeof(std::uint64_t);
  // A server that sends more of them might never end.
  if (count > expected_segments_ - segment_count_) return MakeMismatch("more results than segments");
  const std::size_t bytes = results.values().size();
  const bool fits = row_bytes == 0 ? bytes == 0 : bytes / row_bytes == count && bytes % row_bytes == 0;
  if (count == 0 || results.first_segment() != segment_count_ || !fits) {
    return MakeMismatch("results that do not follow those before");
  }
  if (absl::Status status = TakeFailures(results); !status.ok()) return status;
  values_.resize(bytes / sizeof(std::uint64_t));
  if (bytes > 0) std::memcpy(values_.data(), results.values().data(), bytes);
  const SegmentResults taken = {.first_segment = results.first_segment(),
                                .segment_count = count,
                                .columns = columns_,
                                .values = values_,
                                .failures = failures_};
  if (bytes > 0) {
    if (absl::Status status = check_.Check(taken); !status.ok()) return status;
  }
  segment_count_ += count;
  failure_count_ += failures_.size();
  visitor_(taken);
  return absl::OkStatus();
}

absl::Status SegmentAnswer::TakeFailures(const v1::SegmentResults& results) {
  failures_.clear();
  for (const v1::SegmentError& error : results.errors()) {
    if (error.segment() < segment_count_ || error.segment() - segment_count_ >= results.segment_count() ||
        error.operator_position() >= static_cast<std::uint32_t>(spec_.operators_size())) {
      return MakeMismatch("an error of a segment that is not there");
    }
    const std::optional<SegmentFailure::Reason> reason = ReasonOf(error.reason());
    if (!reason.has_value()) return MakeMismatch("an error of an unknown reason");
    const SegmentFailure failure = {error.segment(), error.operator_position(), *reason};
    if (!failures_.empty() && !IsBefore(failures_.back(), failure)) {
      return MakeMismatch("errors that are not in the order of segments and operators");
    }
    failures_.push_back(failure);
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentSummary> SegmentAnswer::Finish() const {
  if (!summary_.has_value()) return MakeMismatch("no summary");
  if (segment_count_ != expected_segments_ || summary_->segment_count() != expected_segments_ ||
      summary_->element_count() != expected_elements_ || summary_->error_count() != failure_count_) {
    return MakeMismatch("results of another array");
  }
  return SegmentSummary{.segment_count = expected_segments_,
                        .element_count = expected_elements_,
                        .failure_count = failure_count_,
                        .device = summary_->device(),
                        .timings = TimingsFromProto(summary_->timings())};
}

absl::StatusOr<SegmentSummary> SendSegments(const ReduceJob& job, const SegmentCut& cut,
                                            const SegmentVisitor& visitor, const Connection& connection,
                                            const Interrupts& interrupts, Attempt* attempt) {
  v1::ReduceSegmentsHeader header = HeaderOf(job, cut);
  header.set_expected_element_count(job.element_count);
  header.set_with_crc32c(job.options.checksum);
  SegmentStream stream(job, cut, visitor, connection, interrupts);
  const bool goes_on = stream.SendHeader(header, /*more_follow=*/true) &&
                       (cut.length != 0 ? stream.SendBytes(0, job.element_count * job.element_bytes)
                                        : SendRagged(job, cut.lengths, stream));
  if (goes_on) stream.SendCommit(SegmentCount(job.element_count, cut));
  absl::StatusOr<SegmentSummary> summary = stream.Finish(absl::ZeroDuration());
  attempt->delivered = stream.delivered() && !cut.restarts;
  return summary;
}

absl::StatusOr<SegmentSummary> SendSegmentsReference(const ReduceJob& job, const SegmentCut& cut,
                                                     const ArrayReference& reference,
                                                     const SegmentVisitor& visitor,
                                                     const Connection& connection,
                                                     const Interrupts& interrupts, Attempt* attempt) {
  v1::ReduceSegmentsHeader header = HeaderOf(job, cut);
  header.mutable_reference()->set_token(reference.token);
  header.mutable_reference()->set_byte_offset(reference.byte_offset);
  header.mutable_reference()->set_element_count(reference.element_count);
  SegmentStream stream(job, cut, visitor, connection, interrupts);
  bool goes_on = stream.SendHeader(header, /*more_follow=*/!cut.lengths.empty());
  for (std::size_t at = 0; goes_on && at < cut.lengths.size(); at += kLengthsAtOnce) {
    goes_on = stream.SendLengths(cut.lengths.subspan(at, std::min(kLengthsAtOnce, cut.lengths.size() - at)));
  }
  const std::uint64_t array_bytes = job.element_count * job.element_bytes;
  absl::StatusOr<SegmentSummary> summary = stream.Finish(absl::FromChrono(TimeAwake(array_bytes)));
  attempt->delivered = stream.delivered() && !cut.restarts;
  return summary;
}

}  // namespace warpfold
