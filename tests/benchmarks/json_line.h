// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One result as one line of JSON. All benchmarks use the same keys, so that one script reads them all.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/reduction.h"
#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

// Where the figures come from and what they are of: given by flags, because a benchmark cannot know all of
// it.
struct Provenance {
  std::string device;
  std::string driver = "unknown";  // empty: there is none
  std::string commit = "unknown";
  std::string date = "unknown";  // YYYY-MM-DD
};

class JsonLine {
 public:
  JsonLine(const char* bench, const std::string& algorithm, const kernels::ReductionSpec& spec,
           std::uint64_t bytes);

  template <class Value>
  void Add(const char* key, const Value& value) {
    line_[key] = value;
  }
  // `key`_us with its percentiles, if the contender took part; otherwise null.
  void AddMicroseconds(const std::string& prefix, const std::string& contender, const Standings& standings);
  // `prefix`gbps with its percentiles: gigabytes (10^9) of input per second.
  void AddGbps(const std::string& prefix, const std::string& contender, const Standings& standings);
  // How many times faster `contender` was than `other`.
  void AddRatio(const char* key, const std::string& contender, const std::string& other,
                const Standings& standings);
  void Print(const Provenance& provenance);

 private:
  nlohmann::ordered_json line_;
  std::uint64_t bytes_;
};

}  // namespace warpfold::benchmarks
