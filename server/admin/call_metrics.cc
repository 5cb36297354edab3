// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/call_metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/reduction.h"
#include "proto/error_reasons.h"
#include "server/core/admission/methods.h"

namespace warpfold::server {
namespace {

std::vector<std::string> AllOperators() {
  const auto names = kernels::OperatorNames();
  return {names.begin(), names.end()};
}

// The reasons in the API's .proto files, and the code of calls that end without ErrorInfo: those that their
// clients cancel.
std::vector<std::string> Reasons() {
  std::vector<std::string> reasons(std::begin(reason::kOfCalls), std::end(reason::kOfCalls));
  reasons.emplace_back("CANCELLED");
  return reasons;
}

// Whether a series exists from the start, so that Prometheus sees its first count as an increase: for calls
// that succeeded, and for those that failed through the server's fault, for which there are alerts.
bool ExistsFromTheStart(std::size_t code) {
  const auto status = static_cast<absl::StatusCode>(code);
  return status == absl::StatusCode::kOk || status == absl::StatusCode::kInternal ||
         status == absl::StatusCode::kUnknown;
}

}  // namespace

std::vector<std::string> MethodNames() {
  std::vector<std::string> names = AllMethodNames();
  names.emplace_back("unknown");
  return names;
}

LabelSet::LabelSet(std::vector<std::string> values) : values_(std::move(values)) {
  values_.emplace_back("other");
  for (std::size_t i = 0; i < values_.size(); ++i) indexes_.emplace(values_[i], i);
}

std::size_t LabelSet::IndexOf(absl::string_view value) const {
  const auto found = indexes_.find(value);
  return found == indexes_.end() ? values_.size() - 1 : found->second;
}

void DurationHistogram::Add(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  const auto bound = std::lower_bound(kBoundsSeconds.begin(), kBoundsSeconds.end(), seconds);
  counts_[static_cast<std::size_t>(bound - kBoundsSeconds.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(absl::ToInt64Nanoseconds(duration), std::memory_order_relaxed);
}

void DurationHistogram::Write(Exposition& out, const Exposition::Labels& labels) const {
  std::uint64_t count = 0;
  Exposition::Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < kBoundsSeconds.size() ? absl::StrCat(kBoundsSeconds[i]) : "+Inf";
    with_bound.back().second = bound;
    out.Sample(with_bound, count, "_bucket");
  }
  out.Sample(labels, static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9, "_sum");
  out.Sample(labels, count, "_count");
}

CallMetrics::CallMetrics()
    : methods_(MethodNames()),
      operators_(AllOperators()),
      reasons_(Reasons()),
      calls_(methods_.size() * kCodes),
      results_(operators_.size() * kCodes),
      rejections_(reasons_.size()),
      durations_(methods_.size()) {}

void CallMetrics::Add(const CallRecord& record) {
  const std::size_t method = methods_.IndexOf(record.method);
  const std::size_t code = std::min(static_cast<std::size_t>(record.status.code()), kCodes - 1);
  const auto count = [](std::atomic<std::uint64_t>& counter) {
    counter.fetch_add(1, std::memory_order_relaxed);
  };
  count(calls_[method * kCodes + code]);
  durations_[method].Add(record.took);
  if (!record.status.ok()) {
    const std::string reason = kernels::ErrorReason(record.status);
    count(rejections_[reasons_.IndexOf(reason.empty() ? absl::StatusCodeToString(record.status.code())
                                                      : reason)]);
  }
  if (record.reduction.has_value()) {
    for (const std::string& name : record.reduction->spec().operators) {
      count(results_[operators_.IndexOf(name) * kCodes + code]);
    }
  }
  if (record.stages.has_value()) {
    const StageTimes& times = *record.stages;
    const std::array<std::optional<absl::Duration>, kStages> stages = {times.queue, times.receive, times.copy,
                                                                       times.kernel};
    // A call that failed has waited as well, often because of it; its other stages are not whole.
    const std::size_t whole = record.status.ok() ? kStages : 1;
    for (std::size_t i = 0; i < whole; ++i) {
      if (stages[i].has_value()) stages_[i].Add(*stages[i]);
    }
  }
}

// A series that does not exist from the start, of which there are at most 17 for each value, exists from its
// first count on.
void CallMetrics::WriteByCode(Exposition& out, absl::string_view label, const LabelSet& set,
                              const Counts& counts) const {
  for (std::size_t i = 0; i < set.size(); ++i) {
    for (std::size_t code = 0; code < kCodes; ++code) {
      const std::uint64_t count = counts[i * kCodes + code].load(std::memory_order_relaxed);
      if (count == 0 && !ExistsFromTheStart(code)) continue;
      const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
      out.Sample({{label, set[i]}, {"code", name}}, count);
    }
  }
}

void CallMetrics::Write(Exposition& out) const {
  out.Family("warpfold_calls_total", "counter", "Finished calls, by method and status code.");
  WriteByCode(out, "method", methods_, calls_);
  out.Family("warpfold_call_duration_seconds", "histogram", "Time from a call's arrival to its response.");
  for (std::size_t i = 0; i < durations_.size(); ++i) durations_[i].Write(out, {{"method", methods_[i]}});
  out.Family(
      "warpfold_results_total", "counter",
      "Requested results, by operator and by the status code of the call: a call with two operators counts "
      "once for each. A call that ends before its operators have been accepted counts for none.");
  WriteByCode(out, "operator", operators_, results_);
  out.Family("warpfold_rejections_total", "counter",
             "Calls whose status was not OK, by the reason in their ErrorInfo, or by their status code if "
             "there is none.");
  for (std::size_t i = 0; i < rejections_.size(); ++i) {
    out.Sample({{"reason", reasons_[i]}}, rejections_[i].load(std::memory_order_relaxed));
  }
  out.Family(
      "warpfold_stage_duration_seconds", "histogram",
      "Durations of a reduction's stages, as far as they occurred: waiting for a slot (queue), even if "
      "one was free; and, if it succeeded, from its header to its commit (receive), copies to the "
      "device (copy) and reducing (kernel). Stages overlap.");
  constexpr std::array<const char*, kStages> kNames = {"queue", "receive", "copy", "kernel"};
  for (std::size_t i = 0; i < kStages; ++i) stages_[i].Write(out, {{"stage", kNames[i]}});
}

}  // namespace warpfold::server
