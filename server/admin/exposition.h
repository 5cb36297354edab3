// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics as text that Prometheus reads: its exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). Why not prometheus-cpp: docs/adr/0047.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace warpfold::server {

// Threads: one.
class Exposition {
 public:
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

  using Labels = std::vector<std::pair<absl::string_view, absl::string_view>>;

  // Begins a family of samples; all of it must follow. `type` is counter, gauge or histogram.
  void Family(absl::string_view name, absl::string_view type, absl::string_view help);

  // A sample of the family, with a suffix to its name ("_bucket").
  void Sample(const Labels& labels, double value, absl::string_view suffix = "");
  void Sample(const Labels& labels, std::uint64_t value, absl::string_view suffix = "");

  // A family of one sample without labels.
  void Gauge(absl::string_view name, absl::string_view help, double value);
  void Gauge(absl::string_view name, absl::string_view help, std::uint64_t value);
  void Counter(absl::string_view name, absl::string_view help, double value);
  void Counter(absl::string_view name, absl::string_view help, std::uint64_t value);

  const std::string& text() const { return text_; }

 private:
  void Line(const Labels& labels, absl::string_view suffix, absl::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace warpfold::server
