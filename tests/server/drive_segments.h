// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// ReduceSegments streams for tests, the results that they should get, and a driver that does for a
// SegmentSession what Call does.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/segment_row.h"
#include "server/core/calls/segment_session.h"
#include "server/core/wire/messages.h"
#include "tests/server/requests.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold::server {

// The results of segments, row by row.
struct SegmentRows {
  std::vector<std::vector<std::uint64_t>> rows;
  std::vector<kernels::SegmentError> errors;
  std::string device = {};

  friend bool operator==(const SegmentRows& a, const SegmentRows& b) {
    return a.rows == b.rows && a.errors == b.errors;
  }
};

// An array and how it is cut.
struct SegmentedArray {
  v1::ReduceSegmentsHeader header;
  std::string data;
  std::vector<std::uint64_t> lengths;  // of all segments, even if the header says the length

  kernels::ReductionPlan reduction() const { return PlanFromProto(header.spec()).value(); }
  std::uint64_t element_count() const { return data.size() / reduction().element_bytes(); }

  // Made by a reduction of each segment.
  SegmentRows Expected() const {
    const kernels::ReductionPlan plan = reduction();
    const kernels::SegmentLayout layout(plan);
    SegmentRows expected;
    std::size_t at = 0;
    for (const std::uint64_t length : lengths) {
      const std::size_t bytes = length * plan.element_bytes();
      const kernels::SegmentRow row =
          kernels::RowOfSegment(layout, kernels::ReduceOnHost(plan, 0, AsBytes(data).subspan(at, bytes)));
      for (const kernels::SegmentError& error : row.errors) {
        expected.errors.push_back({expected.rows.size(), error.op, error.error});
      }
      expected.rows.push_back(row.values);
      at += bytes;
    }
    return expected;
  }

  // The stream, with chunks that end at these bytes, and with `lengths_ahead` lengths at a time, before the
  // elements of the first of them.
  std::vector<v1::ReduceSegmentsRequest> Requests(const std::vector<std::size_t>& cuts = {},
                                                  std::size_t lengths_ahead = 1000) const {
    std::vector<v1::ReduceSegmentsRequest> requests(1);
    *requests[0].mutable_header() = header;
    const std::uint64_t element_bytes = reduction().element_bytes();
    std::size_t announced = 0;        // lengths
    std::size_t announced_bytes = 0;  // of their segments
    const auto announce = [&] {
      const std::size_t count = std::min(lengths_ahead, lengths.size() - announced);
      requests.emplace_back().mutable_lengths()->set_lengths(lengths.data() + announced, count * 8);
      const std::size_t end = announced + count;
      for (; announced < end; ++announced) announced_bytes += lengths[announced] * element_bytes;
    };
    std::vector<std::size_t> ends = cuts;
    ends.push_back(data.size());
    std::size_t at = 0;
    for (std::size_t end : ends) {
      while (at < end) {
        while (!header.has_segment_length() && announced_bytes == at && announced < lengths.size())
          announce();
        const std::size_t to = header.has_segment_length() ? end : std::min(end, announced_bytes);
        requests.emplace_back().mutable_chunk()->set_data(data.data() + at, to - at);
        at = to;
      }
    }
    while (!header.has_segment_length() && announced < lengths.size()) announce();
    v1::SegmentsCommit& commit = *requests.emplace_back().mutable_commit();
    commit.mutable_array()->set_element_count(element_count());
    commit.mutable_array()->set_byte_count(data.size());
    commit.set_segment_count(lengths.size());
    return requests;
  }
};

inline v1::ReduceSegmentsHeader SegmentsHeader(std::vector<v1::Operator> operators,
                                               v1::ElementType type = v1::ELEMENT_TYPE_INT32) {
  v1::ReduceSegmentsHeader header;
  for (const v1::Operator op : operators) header.mutable_spec()->add_operators(op);
  header.mutable_spec()->set_element_type(type);
  return header;
}

// Puts responses together, and says what is wrong with them.
class SegmentReader {
 public:
  // Without values, which are elsewhere, rows are empty.
  explicit SegmentReader(bool has_values = true) : has_values_(has_values) {}

  // False if this response may not come now, or contradicts itself.
  bool Add(const std::string& bytes) {
    v1::ReduceSegmentsResponse response;
    if (summary_.has_value() || !response.ParseFromString(bytes)) return false;
    if (response.has_layout()) {
      if (layout_.has_value()) return false;
      layout_ = response.layout();
      return layout_->columns_size() > 0;
    }
    if (!layout_.has_value()) return false;
    if (response.has_summary()) {
      summary_ = response.summary();
      return summary_->segment_count() == rows_.rows.size() && summary_->error_count() == rows_.errors.size();
    }
    return AddResults(response.results());
  }

  bool has_summary() const { return summary_.has_value(); }
  const v1::SegmentSummary& summary() const { return *summary_; }
  const v1::SegmentLayout& layout() const { return *layout_; }
  const SegmentRows& rows() const { return rows_; }

 private:
  bool AddResults(const v1::SegmentResults& results) {
    const std::size_t columns = has_values_ ? layout_->columns_size() : 0;
    const std::uint64_t count = results.segment_count();
    if (results.first_segment() != rows_.rows.size() || count == 0) return false;
    if (results.values().size() != columns * count * 8 || results.values().size() > 512 << 10) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::vector<std::uint64_t>& row = rows_.rows.emplace_back(columns);
      for (std::size_t column = 0; column < columns; ++column) {
        std::memcpy(&row[column], results.values().data() + (column * count + i) * 8, 8);
      }
    }
    for (const v1::SegmentError& error : results.errors()) {
      if (error.segment() < results.first_segment() || error.segment() >= rows_.rows.size()) return false;
      rows_.errors.push_back({error.segment(), error.operator_position(),
                              error.reason() == v1::SEGMENT_ERROR_REASON_OVERFLOW
                                  ? kernels::Outcome::Error::kOverflow
                                  : kernels::Outcome::Error::kEmpty});
    }
    return true;
  }

  bool has_values_;
  std::optional<v1::SegmentLayout> layout_;
  std::optional<v1::SegmentSummary> summary_;
  SegmentRows rows_;
};

// Threads: one.
class SegmentDriver {
 public:
  SegmentDriver(const Service& service, SlotPool& pool, bool has_values = true)
      : pool_(pool), reader_(has_values), session_(service, pool, [this] { OnProgress(); }) {}

  void OnMessage(Message message) { Follow(session_.OnMessage(std::move(message))); }
  void OnEnd() { Follow(session_.OnEnd()); }
  // The client takes the output that there is.
  void TakeOutput() {
    while (session_.has_output()) {
      Take(session_.TakeOutput());
      if (need_ == ArraySession::Need::kDevice) OnProgress();
    }
    if (whole_ && !ended()) End();
  }
  void AwaitDevice() {
    while (!ended() && need_ == ArraySession::Need::kDevice) {
      pool_.Poll();
      TakeOutput();
    }
  }

  SegmentSession& session() { return session_; }
  ArraySession::Need need() const { return need_; }
  bool ended() const { return result_.has_value(); }
  const absl::Status& status() const { return *result_; }
  const SegmentReader& reader() const { return reader_; }

 private:
  void Take(const std::string& message) {
    if (!reader_.Add(message)) result_ = absl::InternalError("a response that may not come");
  }
  void OnProgress() {
    if (!ended()) Follow(session_.Resume());
  }
  void Follow(const absl::StatusOr<ArraySession::Need>& need) {
    if (!need.ok()) {
      result_ = need.status();
      session_.Release();
      return;
    }
    need_ = *need;
    if (need_ == ArraySession::Need::kNothing) whole_ = true;
  }
  void End() {
    const absl::StatusOr<std::string> response = session_.Response();
    if (response.ok()) Take(*response);
    if (!ended()) result_ = response.status();
    session_.Release();
  }

  SlotPool& pool_;
  SegmentReader reader_;
  SegmentSession session_;
  ArraySession::Need need_ = ArraySession::Need::kMessage;
  bool whole_ = false;
  std::optional<absl::Status> result_;
};

// Sends the messages until one fails, then ends the stream. `between` is called after each that did not fail.
// `arrive` makes a message of a request's bytes.
inline absl::StatusOr<SegmentRows> DriveSegments(
    const Service& service, SlotPool& pool, const std::vector<v1::ReduceSegmentsRequest>& requests,
    const std::function<void()>& between = [] {},
    const std::function<Message(std::string)>& arrive =
        [](std::string bytes) { return MessageOf(std::move(bytes), {}); }) {
  SegmentDriver driver(service, pool);
  for (const v1::ReduceSegmentsRequest& request : requests) {
    driver.OnMessage(arrive(request.SerializeAsString()));
    driver.AwaitDevice();
    if (!driver.ended()) between();
    if (driver.ended()) return driver.status();
    driver.TakeOutput();
  }
  driver.OnEnd();
  driver.AwaitDevice();
  driver.TakeOutput();
  if (!driver.ended()) return absl::InternalError("no end");
  if (!driver.status().ok()) return driver.status();
  if (!driver.reader().has_summary()) return absl::InternalError("no summary");
  return driver.reader().rows();
}

}  // namespace warpfold::server
