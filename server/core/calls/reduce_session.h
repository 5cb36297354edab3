// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array on its way to a result: checks the header, and reduces the chunks that follow it or the memory
// that it names.
//
// Threads: the shard's only. After an error the session returns nothing more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/calls/array_session.h"
#include "server/core/calls/plan_cache.h"
#include "server/core/slots/slot_reducer.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

class ReduceSession : public ArraySession {
 public:
  using ArraySession::ArraySession;

  // The only message of ReduceArray, instead of all others. `plans` are those of the shard.
  absl::StatusOr<Need> OnArray(Message message, PlanCache& plans);

  absl::StatusOr<std::string> Response() override;

  void Release() override;

  bool returns_state() const override { return header_.return_state(); }
  const std::string& request_id() const override { return header_.request_id(); }
  void Describe(absl::Time end, CallRecord* record) const override;
  std::uint64_t array_bytes() const override;

 protected:
  absl::StatusOr<StreamMessage> Parse(ByteSlices message) override;
  absl::Status Begin() override;
  absl::Status SinkStatus() const override { return reducer_->status(); }
  absl::StatusOr<bool> TryFinish() override { return reducer_->TryFinish(); }

 private:
  absl::Status BeginBy(const kernels::ReductionPlan& reduction);
  absl::StatusOr<Need> TakeArray(ParsedChunk data, Message message);
  absl::Status CheckHeader(const kernels::ReductionPlan& reduction) const;
  absl::Status CheckPlace(const kernels::ReductionPlan& reduction) const;
  absl::Status BeginChunks(const kernels::ReductionPlan& reduction);
  absl::Status BeginElsewhere(const kernels::ReductionPlan& reduction);
  std::uint64_t CrossoverBytes(const kernels::ReductionPlan& reduction) const;

  v1::ReduceHeader parsed_header_;            // by Parse
  v1::ReduceHeader header_;                   // of the array
  std::unique_ptr<SlotReducer> reducer_;      // once there is a header
  std::optional<std::uint64_t> whole_bytes_;  // of an array that one message has
};

// A call of ReduceArray: one message with everything that a stream of Reduce has.
class ReduceArraySession : public ReduceSession {
 public:
  // `plans` must outlive the session, too.
  ReduceArraySession(const Service& service, PartySlots slots, PlanCache& plans,
                     std::function<void()> listener)
      : ReduceSession(service, std::move(slots), std::move(listener)), plans_(plans) {}
  absl::StatusOr<Need> OnMessage(Message message) override { return OnArray(std::move(message), plans_); }
  absl::StatusOr<Need> OnEnd() override;

 private:
  PlanCache& plans_;
};

}  // namespace warpfold::server
