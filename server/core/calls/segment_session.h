// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Turns one array into the results of its segments: checks the header, cuts the chunks that follow it, or the
// memory that it names, into segments, and sends results while the array is still arriving.
//
// Threads: the shard's only. After an error the session returns nothing more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/calls/array_session.h"
#include "server/core/slots/segment_reducer.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold::server {

class SegmentSession : public ArraySession {
 public:
  using ArraySession::ArraySession;

  absl::StatusOr<Need> OnEnd() override;

  // The last message of the response, which has the counts of segments and errors.
  absl::StatusOr<std::string> Response() override;
  bool has_output() const override { return reducer_ != nullptr && reducer_->has_message(); }
  std::string TakeOutput() override { return reducer_->TakeMessage(); }

  void Release() override;

  const std::string& request_id() const override { return header_.request_id(); }
  void Describe(absl::Time end, CallRecord* record) const override;
  std::uint64_t array_bytes() const override;
  std::uint64_t progress_bytes() const override { return ArraySession::array_bytes() + length_bytes_; }

 protected:
  absl::StatusOr<StreamMessage> Parse(ByteSlices message) override;
  absl::Status Begin() override;
  absl::Status SinkStatus() const override { return reducer_->status(); }
  absl::Status OnCommitted() override;
  absl::StatusOr<bool> TakeLengths() override;
  absl::StatusOr<bool> PlaceLengths() override { return reducer_->PlaceLengths(); }
  absl::StatusOr<bool> TryFinish() override { return reducer_->TryFinish(); }

 private:
  bool is_elsewhere() const { return header_.has_reference(); }
  // How many elements there can be.
  std::uint64_t MostElements() const;

  absl::Status CheckCut() const;
  // Whether `count` elements, of which the header speaks, are whole segments of `length`.
  absl::Status CheckProduct(std::uint64_t count, std::uint64_t length) const;
  absl::Status BeginChunks();
  absl::Status BeginElsewhere();
  // Where results go, if not into messages.
  absl::StatusOr<std::optional<ResultsMemory>> FindResults() const;
  absl::Status Announce(std::uint64_t length);
  absl::Status CheckCounts(std::uint64_t elements, std::uint64_t segments) const;

  // Parse sets these.
  v1::ReduceSegmentsHeader parsed_header_;
  v1::SegmentLengths parsed_lengths_;
  std::uint64_t committed_segments_ = 0;

  v1::ReduceSegmentsHeader header_;  // of the array
  std::optional<kernels::ReductionPlan> reduction_;
  std::unique_ptr<SegmentReducer> reducer_;  // once there is a header
  // Totals of the lengths that have come.
  std::uint64_t announced_segments_ = 0;
  std::uint64_t announced_elements_ = 0;
  std::uint64_t length_bytes_ = 0;
};

}  // namespace warpfold::server
