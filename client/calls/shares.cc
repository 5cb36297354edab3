// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/shares.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "client/calls/merge.h"
#include "client/calls/retry.h"
#include "client/calls/share_queue.h"
#include "client/calls/side_by_side.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

// Timings of streams that ran one after another: the sum of each phase.
void Add(const v1::ServerTimings& from, v1::ServerTimings& to) {
  to.set_queue_ns(to.queue_ns() + from.queue_ns());
  to.set_receive_ns(to.receive_ns() + from.receive_ns());
  to.set_copy_ns(to.copy_ns() + from.copy_ns());
  to.set_kernel_ns(to.kernel_ns() + from.kernel_ns());
}

// Timings of streams that ran at the same time: for each phase, the longest.
void KeepLonger(const v1::ServerTimings& from, v1::ServerTimings& to) {
  to.set_queue_ns(std::max(to.queue_ns(), from.queue_ns()));
  to.set_receive_ns(std::max(to.receive_ns(), from.receive_ns()));
  to.set_copy_ns(std::max(to.copy_ns(), from.copy_ns()));
  to.set_kernel_ns(std::max(to.kernel_ns(), from.kernel_ns()));
}

// One stream. It sends one share after the other without a pause: while the server finishes one, the next is
// being sent. The calls of both are on the same connection.
class Worker {
 public:
  Worker(const ReduceJob& job, std::span<const Stripe> shares, ShareQueue& queue, std::size_t target,
         const Interrupts& interrupts, v1::ServerTimings& timings)
      : job_(job),
        shares_(shares),
        queue_(queue),
        timings_(timings),
        retry_(job.targets, target, job.client_options, job.deadline, interrupts) {}

  void Run() {
    while (!queue_.finished()) {
      const std::optional<std::size_t> share = unanswered_.empty() ? queue_.Take() : queue_.TakeAhead();
      const bool sent = share.has_value() && Send(*share);
      // The response to a share that was sent completely may come while the next one is sent.
      TakeAnswers(sent ? 1 : 0);
      if (failure_.ok()) continue;
      // The next attempt may be on another connection: the calls on this one end first.
      TakeAnswers(0);
      unanswered_.clear();
      const absl::Status failure = std::exchange(failure_, absl::OkStatus());
      if (!retry_.Again(failure, {.patient = queue_.any_done()}))
        return queue_.Leave(retry_.Outcome(failure));
    }
  }

 private:
  struct Sent {
    Sent(std::size_t number, bool ahead, const ReduceJob& job, const Stripe& stripe, const RetryLoop& retry)
        : share(number),
          is_ahead(ahead),
          call(job, stripe, /*return_state=*/true, retry.connection(), retry.interrupts()) {}
    const std::size_t share;
    const bool is_ahead;  // the one before it had no response yet when it began
    StripeCall call;
  };

  // Whether all of it was sent. Takes the response to the previous share as soon as it is there: it may be a
  // failure that ends everything.
  bool Send(std::size_t share) {
    StripeCall& call =
        unanswered_.emplace_back(share, !unanswered_.empty(), job_, shares_[share], retry_).call;
    while (call.SendChunk()) {
      if (unanswered_.size() > 1 && unanswered_.front().call.AwaitEnd(absl::ZeroDuration())) TakeAnswer();
      if (queue_.finished()) return false;
    }
    return call.Commit();
  }

  // Waits until at most `left` shares have no response, or the array is finished.
  void TakeAnswers(std::size_t left) {
    while (unanswered_.size() > left && !queue_.finished()) TakeAnswer();
  }

  // Waits for the response to the share that was sent first.
  void TakeAnswer() {
    absl::StatusOr<v1::Reduction> reduction = unanswered_.front().call.Finish();
    const std::size_t share = unanswered_.front().share;
    const bool was_ahead = unanswered_.front().is_ahead;
    unanswered_.pop_front();
    if (reduction.ok()) {
      Add(reduction->timings(), timings_);
      queue_.Done(share, std::move(*reduction->mutable_state()));
      return retry_.Succeeded();
    }
    const absl::Status& status = reduction.status();
    if (MayRetry(status, {})) {
      // It is put back before the pause, since another stream may take it sooner.
      queue_.PutBack(share);
    } else {
      queue_.Fail(status);
    }
    if (was_ahead && IsBusy(status)) return queue_.EndLookAhead();
    // Both calls of a broken connection fail, which counts as one failure; one that ends the array takes
    // precedence.
    if (failure_.ok() || queue_.finished()) failure_ = status;
  }

  const ReduceJob& job_;
  const std::span<const Stripe> shares_;
  ShareQueue& queue_;
  v1::ServerTimings& timings_;
  RetryLoop retry_;
  // Two at most, in the order in which they were sent, on retry_'s connection.
  std::deque<Sent> unanswered_;
  absl::Status failure_;  // of an attempt, until the next one
};

}  // namespace

absl::StatusOr<v1::Reduction> ReduceInShares(const ReduceJob& job, std::span<const Stripe> shares,
                                             int streams) {
  ShareQueue queue(shares.size(), streams);
  std::vector<v1::ServerTimings> timings(static_cast<std::size_t>(streams));
  const std::size_t first_target = job.targets.Next();
  const auto run = [&](std::size_t stream, const Interrupts& interrupts) {
    const std::size_t target = (first_target + stream) % job.targets.count();
    try {
      Worker(job, shares, queue, target, interrupts, timings[stream]).Run();
    } catch (...) {
      // The others do not wait for its share.
      queue.Fail(Cancelled());
      throw;
    }
    // Ends the other streams' calls after a failure, and their pauses after success.
    return queue.finished();
  };
  absl::Status status = RunSideBySide(timings.size(), InterruptsOf(job.options), run);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<v1::PartialState>> states = queue.States();
  if (!states.ok()) return states.status();
  absl::StatusOr<v1::Reduction> merged = MergeStates(job, *std::move(states));
  if (!merged.ok()) return merged;
  merged->clear_timings();
  for (const v1::ServerTimings& of_stream : timings) KeepLonger(of_stream, *merged->mutable_timings());
  return merged;
}

}  // namespace warpfold
