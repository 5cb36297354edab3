// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/segment_parts.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/calls/retry.h"
#include "client/calls/segment_stream.h"
#include "client/connections/grpc_process.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

// What a visitor was told of one part, to be told again.
class HeldResults {
 public:
  // A visitor that holds what it is told. Segments count from the part's first one.
  void Take(const SegmentResults& results) {
    if (results.segment_count == 0) {  // the begin of an attempt
      columns_.assign(results.columns.begin(), results.columns.end());
      values_.clear();
      batches_.clear();
      return;
    }
    batches_.push_back({.segment_count = results.segment_count,
                        .failures = {results.failures.begin(), results.failures.end()}});
    values_.insert(values_.end(), results.values.begin(), results.values.end());
  }

  const std::vector<SegmentColumn>& columns() const { return columns_; }

  void Tell(const SegmentVisitor& visitor, std::uint64_t first_segment) {
    std::span<const std::uint64_t> values = values_;
    for (Batch& batch : batches_) {
      for (SegmentFailure& failure : batch.failures) failure.segment += first_segment;
      const std::size_t count = batch.segment_count * columns_.size();
      visitor({.first_segment = first_segment + told_,
               .segment_count = batch.segment_count,
               .columns = columns_,
               .values = values.first(count),
               .failures = batch.failures});
      values = values.subspan(count);
      told_ += batch.segment_count;
    }
    told_ = 0;
  }

 private:
  struct Batch {
    std::uint64_t segment_count = 0;
    std::vector<SegmentFailure> failures;
  };

  std::vector<SegmentColumn> columns_;
  std::vector<std::uint64_t> values_;  // of all batches
  std::vector<Batch> batches_;
  std::uint64_t told_ = 0;
};

struct Outcome {
  absl::StatusOr<SegmentSummary> summary = absl::UnknownError("");
  HeldResults results = {};
  std::exception_ptr thrown = nullptr;  // there is no memory to hold results in
};

// Which part is next, and what became of those before it. Threads: any.
class PartBoard {
 public:
  PartBoard(std::size_t parts, std::size_t most_waiting) : parts_(parts), most_waiting_(most_waiting) {}

  // The next part, as soon as not too many wait for the visitor; nothing when there is none, or after End.
  std::optional<std::size_t> Take() {
    absl::MutexLock lock(&mutex_);
    const auto may = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return is_over_ || next_ == parts_ || next_ < told_ + most_waiting_;
    };
    mutex_.Await(absl::Condition(&may));
    if (is_over_ || next_ == parts_) return std::nullopt;
    return next_++;
  }
  // Memory to hold results in, which may have held others.
  HeldResults TakeMemory() {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return {};
    HeldResults memory = std::move(free_.back());
    free_.pop_back();
    return memory;
  }
  void Put(std::size_t part, Outcome outcome) {
    absl::MutexLock lock(&mutex_);
    done_.emplace(part, std::move(outcome));
  }

  // The outcome of the next part to be told, if it comes within `timeout`.
  std::optional<Outcome> Await(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const auto is_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_.contains(told_); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&is_done), timeout)) return std::nullopt;
    Outcome outcome = std::move(done_.at(told_));
    done_.erase(told_);
    return outcome;
  }
  // It was told.
  void Told(HeldResults memory) {
    absl::MutexLock lock(&mutex_);
    ++told_;
    free_.push_back(std::move(memory));
  }
  void End() {
    absl::MutexLock lock(&mutex_);
    is_over_ = true;
  }

 private:
  const std::size_t parts_;
  const std::size_t most_waiting_;
  absl::Mutex mutex_;
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t told_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::size_t, Outcome> done_ ABSL_GUARDED_BY(mutex_);
  std::vector<HeldResults> free_ ABSL_GUARDED_BY(mutex_);
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
};

// The threads that make the calls, until it is destroyed.
class Callers {
 public:
  Callers(const ReduceJob& job, const std::vector<SegmentPart>& parts, PartBoard& board,
          const Interrupts& interrupts)
      : job_(job),
        parts_(parts),
        board_(board),
        each_({.stop = stop_.get_token(),
               .traceparent = interrupts.traceparent,
               .tracestate = interrupts.tracestate}),
        forward_stop_(interrupts.stop, [this] { stop_.request_stop(); }) {}
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  // Stops the calls that are under way.
  ~Callers() {
    stop_.request_stop();
    board_.End();
  }

  // False if the system has no thread.
  bool Start() {
    try {
      threads_.emplace_back([this] {
        while (const std::optional<std::size_t> part = board_.Take()) Call(*part);
      });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

 private:
  void Call(std::size_t index) {
    const SegmentPart& part = parts_[index];
    Outcome outcome = {.results = board_.TakeMemory()};
    const SegmentVisitor hold = [&](const SegmentResults& results) { outcome.results.Take(results); };
    ReduceJob job = job_;
    job.element_count = part.reference.element_count;
    RetryLoop retry(job.targets, 0, job.client_options, job.deadline, each_);
    try {
      outcome.summary = retry.Run([&](Attempt& attempt) {
        auto summary = SendSegmentsReference(job, part.cut, part.reference, hold, retry.connection(),
                                             retry.interrupts(), &attempt);
        attempt.delivered = false;  // the caller has seen nothing yet
        return summary;
      });
    } catch (...) {
      outcome.thrown = std::current_exception();
    }
    board_.Put(index, std::move(outcome));
  }

  const ReduceJob& job_;
  const std::vector<SegmentPart>& parts_;
  PartBoard& board_;
  std::stop_source stop_;
  const Interrupts each_;
  const std::stop_callback<std::function<void()>> forward_stop_;
  std::vector<std::jthread> threads_;  // joined first
};

void Add(const SegmentSummary& part, SegmentSummary& all) {
  all.segment_count += part.segment_count;
  all.element_count += part.element_count;
  all.failure_count += part.failure_count;
  all.device = part.device;
  all.timings.queue = std::max(all.timings.queue, part.timings.queue);
  all.timings.receive = std::max(all.timings.receive, part.timings.receive);
  all.timings.copy += part.timings.copy;
  all.timings.kernel += part.timings.kernel;
}

}  // namespace

std::vector<SegmentPart> CutIntoSegmentParts(const SegmentCut& cut, const ArrayReference& reference,
                                             std::uint64_t element_bytes) {
  const std::uint64_t segments = cut.length != 0 ? reference.element_count / cut.length : cut.lengths.size();
  std::vector<SegmentPart> parts;
  std::uint64_t element = 0;
  for (std::uint64_t first = 0; first < segments; first += kSegmentsOfAPart) {
    const std::uint64_t count = std::min(kSegmentsOfAPart, segments - first);
    SegmentPart part = {.first_segment = first, .cut = {.length = cut.length}, .reference = reference};
    if (cut.length != 0) {
      part.reference.element_count = count * cut.length;
    } else {
      part.cut.lengths = cut.lengths.subspan(first, count);
      part.reference.element_count = 0;
      for (const std::uint64_t length : part.cut.lengths) part.reference.element_count += length;
    }
    part.reference.byte_offset += element * element_bytes;
    element += part.reference.element_count;
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::StatusOr<SegmentSummary> ReduceSegmentParts(const ReduceJob& job, const std::vector<SegmentPart>& parts,
                                                  const SegmentVisitor& visitor, int calls) {
  const Interrupts interrupts = InterruptsOf(job.options);
  PartBoard board(parts.size(), 2 * static_cast<std::size_t>(calls));
  LookUpCpuFrequency();
  Callers callers(job, parts, board, interrupts);
  int started = 0;
  while (started < calls && callers.Start()) ++started;
  if (started == 0) return absl::ResourceExhaustedError("the system gives no thread for the calls");
  SegmentSummary summary;
  for (const SegmentPart& part : parts) {
    std::optional<Outcome> outcome = board.Await(kAskedEvery);
    while (!outcome.has_value()) {
      if (interrupts.keep_going && !interrupts.keep_going()) return Cancelled();
      outcome = board.Await(kAskedEvery);
    }
    if (outcome->thrown != nullptr) std::rethrow_exception(outcome->thrown);
    if (!outcome->summary.ok()) return outcome->summary.status();
    if (part.first_segment == 0)
      visitor({.columns = outcome->results.columns(), .values = {}, .failures = {}});
    outcome->results.Tell(visitor, part.first_segment);
    Add(*outcome->summary, summary);
    board.Told(std::move(outcome->results));
  }
  return summary;
}

}  // namespace warpfold
