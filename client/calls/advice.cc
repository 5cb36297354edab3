// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/advice.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "client/calls/answer_check.h"
#include "client/calls/array_stream.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/raw_call.h"
#include "client/calls/side_by_side.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

constexpr char kInfoMethod[] = "/warpfold.v1.ReductionService/GetServerInfo";

// Smaller arrays go over one stream, whatever the server says: a second one takes a millisecond to set up.
constexpr std::uint64_t kWorthAQuestionBytes = std::uint64_t{8} << 20;
constexpr absl::Duration kQuestionTimeout = absl::Seconds(2);
// A target that did not respond is not asked again for this long, and gets no array while another target
// serves.
constexpr absl::Duration kUnansweredLeftOut = absl::Seconds(5);
constexpr std::uint64_t kMinAdvisedChunkBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMaxAdvisedChunkBytes = std::uint64_t{2} << 20;
constexpr std::uint32_t kMaxAdvisedStreams = 64;

void AskForAdvice(Targets& targets, std::size_t target, absl::Time deadline, const Interrupts& interrupts) {
  const absl::Time now = SteadyNow();
  if (now >= deadline) return;
  const Targets::Lease lease = targets.Take(target, now);
  const auto info = AskServerInfo(lease.connection(), std::min(deadline, now + kQuestionTimeout), interrupts);
  if (info.ok()) return targets.KeepAdvice(target, info->transfer_advice());
  // If the caller's deadline is shorter, a failure says nothing about the target.
  const bool had_time = deadline > now + kQuestionTimeout;
  const bool silent =
      absl::IsUnavailable(info.status()) || (had_time && absl::IsDeadlineExceeded(info.status()));
  if (silent) targets.LeaveOut(target, now + kUnansweredLeftOut);
}

// The targets that may give advice and have not done so.
std::vector<std::size_t> WithoutAdvice(const Targets& targets) {
  std::vector<std::size_t> without;
  for (std::size_t target = 0; target < targets.count(); ++target) {
    if (targets.advice(target).has_value() || targets.IsLeftOut(target, SteadyNow())) continue;
    without.push_back(target);
  }
  return without;
}

}  // namespace

TransferPlan PlanTransferOver(int streams) { return {streams, kChunkBytes}; }

absl::StatusOr<TransferPlan> PlanTransfer(Targets& targets, std::uint64_t byte_count, int most_streams,
                                          absl::Time deadline, const Interrupts& interrupts) {
  TransferPlan plan = PlanTransferOver(1);
  if (byte_count < kWorthAQuestionBytes) return plan;
  if (const std::vector<std::size_t> without = WithoutAdvice(targets); !without.empty()) {
    const auto ask = [&](std::size_t i, const Interrupts& each) {
      AskForAdvice(targets, without[i], deadline, each);
      return false;
    };
    if (absl::Status status = RunSideBySide(without.size(), interrupts, ask); !status.ok()) return status;
    if (SteadyNow() >= deadline) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
                       "not every server said in time how large arrays should come");
    }
  }
  std::uint64_t streams = 0;
  std::uint64_t stripe_bytes = 1;
  std::optional<std::uint64_t> chunk_bytes;
  for (std::size_t target = 0; target < targets.count(); ++target) {
    const std::optional<v1::TransferAdvice> advice = targets.advice(target);
    if (!advice.has_value()) continue;
    // A server that gives no advice gets one stream if others get some.
    streams += std::clamp<std::uint32_t>(advice->streams(), 1, kMaxAdvisedStreams);
    const std::uint64_t least =
        advice->min_stripe_bytes() == 0 ? kWorthAQuestionBytes : advice->min_stripe_bytes();
    stripe_bytes = std::max(stripe_bytes, least);
    if (advice->chunk_bytes() != 0)
      chunk_bytes = std::min(chunk_bytes.value_or(kMaxAdvisedChunkBytes), advice->chunk_bytes());
  }
  streams = std::min(streams, byte_count / stripe_bytes);
  plan.streams =
      static_cast<int>(std::clamp<std::uint64_t>(streams, 1, static_cast<std::uint64_t>(most_streams)));
  if (chunk_bytes.has_value()) {
    plan.chunk_bytes = std::max(*chunk_bytes, kMinAdvisedChunkBytes) / kMinChunkBytes * kMinChunkBytes;
  }
  return plan;
}

absl::StatusOr<v1::GetServerInfoResponse> AskServerInfo(const Connection& connection, absl::Time deadline,
                                                        const Interrupts& interrupts) {
  CallScope scope(connection, deadline, interrupts);
  v1::GetServerInfoResponse response;
  absl::Status status = CallUnary(scope, kInfoMethod, v1::GetServerInfoRequest(), response);
  if (status.ok()) status = CheckServerInfo(response);
  if (!status.ok()) return status;
  return response;
}

}  // namespace warpfold
