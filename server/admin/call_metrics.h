// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counters and histograms of finished calls. Values of labels come from sets that are fixed when the process
// starts (methods, status codes, reasons, operators), so that no client can create more series; a value that
// is in no set counts as "other".
//
// Threads: all methods from any thread; none of them waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/admin/exposition.h"
#include "server/core/call_observer.h"

namespace warpfold::server {

// Values of a label. The last one is "other".
class LabelSet {
 public:
  explicit LabelSet(std::vector<std::string> values);

  std::size_t size() const { return values_.size(); }
  const std::string& operator[](std::size_t index) const { return values_[index]; }
  std::size_t IndexOf(absl::string_view value) const;

 private:
  std::vector<std::string> values_;
  std::map<std::string, std::size_t, std::less<>> indexes_;
};

// A histogram: how many calls took how long.
class DurationHistogram {
 public:
  void Add(absl::Duration duration);
  void Write(Exposition& out, const Exposition::Labels& labels) const;

 private:
  static constexpr std::array kBoundsSeconds = {1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                                                5e-3, 1e-2,   2.5e-2, 5e-2, 0.1,    0.25, 0.5,  1.0,
                                                2.5,  5.0,    10.0,   30.0, 60.0,   300.0};
  std::array<std::atomic<std::uint64_t>, kBoundsSeconds.size() + 1> counts_ = {};
  std::atomic<std::int64_t> sum_ns_ = 0;
};

// The values that CallRecord::method can have: the methods of the API and of the standard services, and
// "unknown".
std::vector<std::string> MethodNames();

class CallMetrics {
 public:
  CallMetrics();

  void Add(const CallRecord& record);
  void Write(Exposition& out) const;

 private:
  using Counts = std::vector<std::atomic<std::uint64_t>>;
  static constexpr std::size_t kCodes = 17;  // of gRPC
  static constexpr std::size_t kStages = 4;

  void WriteByCode(Exposition& out, absl::string_view label, const LabelSet& set, const Counts& counts) const;

  const LabelSet methods_;
  const LabelSet operators_;
  const LabelSet reasons_;
  Counts calls_;                              // by method and code
  Counts results_;                            // by operator and code
  Counts rejections_;                         // by reason
  std::vector<DurationHistogram> durations_;  // by method
  std::array<DurationHistogram, kStages> stages_;
};

}  // namespace warpfold::server
