// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/shares.h"

#include <algorithm>
#include <functional>
#include <stop_token>
#include <thread>
#include <utility>

#include "client/grpc_process.h"
#include "client/merge.h"
#include "client/retry.h"

namespace warpfold {

ShareQueue::ShareQueue(std::size_t shares, int workers) : workers_(workers), states_(shares) {}

std::optional<std::size_t> ShareQueue::Take() {
  absl::MutexLock lock(&mutex_);
  const auto is_answer = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return FinishedLocked() || !put_back_.empty() || cursor_ < states_.size();
  };
  mutex_.Await(absl::Condition(&is_answer));
  if (FinishedLocked()) return std::nullopt;
  if (put_back_.empty()) return cursor_++;
  const auto first = std::min_element(put_back_.begin(), put_back_.end());
  const std::size_t share = *first;
  put_back_.erase(first);
  return share;
}

void ShareQueue::Done(std::size_t share, v1::PartialState state) {
  absl::MutexLock lock(&mutex_);
  states_[share] = std::move(state);
  ++done_;
}

void ShareQueue::PutBack(std::size_t share) {
  absl::MutexLock lock(&mutex_);
  put_back_.push_back(share);
}

void ShareQueue::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok() || absl::IsCancelled(status_)) status_ = status;
}

void ShareQueue::Leave(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (--workers_ == 0 && status_.ok()) status_ = status;
}

bool ShareQueue::any_done() const {
  absl::MutexLock lock(&mutex_);
  return done_ > 0;
}

bool ShareQueue::finished() const {
  absl::MutexLock lock(&mutex_);
  return FinishedLocked();
}

bool ShareQueue::AwaitFinished(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  const auto is_finished = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return FinishedLocked(); };
  return mutex_.AwaitWithTimeout(absl::Condition(&is_finished), timeout);
}

absl::StatusOr<std::vector<v1::PartialState>> ShareQueue::States() {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return status_;
  return std::move(states_);
}

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

struct Worker {
  const ReduceJob& job;
  std::span<const Stripe> shares;
  ShareQueue& queue;
  std::size_t target;
  const Interrupts interrupts;
  v1::ServerTimings& timings;

  void Run() {
    RetryLoop retry(job.targets, target, job.client_options, job.deadline, interrupts);
    while (const std::optional<std::size_t> share = queue.Take()) {
      bool took_data = false;
      absl::StatusOr<v1::Reduction> reduction = SendStripe(
          job, shares[*share], /*return_state=*/true, retry.connection(), retry.interrupts(), &took_data);
      if (reduction.ok()) {
        Add(reduction->timings(), timings);
        queue.Done(*share, std::move(*reduction->mutable_state()));
        retry.Succeeded();
        continue;
      }
      // A share is small enough to be sent again, even if the server had taken data of it.
      const Attempt attempt = {.took_data = false, .patient = queue.any_done()};
      if (MayRetry(reduction.status(), attempt)) {
        // The share is put back before the pause, since another stream may take it sooner.
        queue.PutBack(*share);
      } else {
        queue.Fail(reduction.status());
      }
      if (!retry.Again(reduction.status(), attempt)) return queue.Leave(reduction.status());
    }
  }
};

}  // namespace

absl::StatusOr<v1::Reduction> ReduceInShares(const ReduceJob& job, std::span<const Stripe> shares,
                                             int streams) {
  LookUpCpuFrequency();
  std::stop_source stop_all;
  ShareQueue queue(shares.size(), streams);
  std::vector<v1::ServerTimings> timings(static_cast<std::size_t>(streams));
  {
    const std::stop_callback forward_stop(job.options.stop, [&] { stop_all.request_stop(); });
    const std::size_t first_target = job.targets.Next();
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < timings.size(); ++i) {
      const std::size_t target = (first_target + i) % job.targets.count();
      threads.emplace_back([&, target, i] {
        const Interrupts interrupts = {.stop = stop_all.get_token(),
                                       .traceparent = job.options.traceparent,
                                       .tracestate = job.options.tracestate};
        Worker{job, shares, queue, target, interrupts, timings[i]}.Run();
        // Ends the calls of the others after a failure, and their pauses after success.
        if (queue.finished()) stop_all.request_stop();
      });
    }
    const std::function<bool()>& keep_going = job.options.keep_going;
    while (keep_going && !queue.AwaitFinished(kAskedEvery)) {
      if (keep_going()) continue;
      stop_all.request_stop();
      break;
    }
  }
  absl::StatusOr<std::vector<v1::PartialState>> states = queue.States();
  if (!states.ok()) return states.status();
  absl::StatusOr<v1::Reduction> merged = MergeStates(job, *std::move(states));
  if (!merged.ok()) return merged;
  merged->clear_timings();
  for (const v1::ServerTimings& of_stream : timings) KeepLonger(of_stream, *merged->mutable_timings());
  return merged;
}

}  // namespace warpfold
