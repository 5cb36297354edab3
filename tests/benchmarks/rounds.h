// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How every benchmark here compares: contenders take turns, round by round, in one process, so that anything
// that drifts (clocks, temperature, neighbours) drifts for all of them. Figures are medians with their 10th
// and 90th percentiles.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace warpfold::benchmarks {

struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  int samples = 0;
};

// `samples` must not be empty.
Spread SpreadOf(std::vector<double> samples);

struct Contender {
  // Names its figures. Contenders with the same key are variants of one: the best of them counts.
  std::string key;
  // Reduces `data`, or enqueues its reduction. The contender was made for a fixed number of bytes.
  std::function<void(const std::byte* data)> call;
  // Whether `call` returns only when the work is done.
  bool waits = false;
};

// Microseconds a call, by key.
using Standings = std::map<std::string, Spread>;

struct RoundLimits {
  double budget_ms = 150;  // of all rounds together, as far as min_rounds allows
  int min_rounds = 7;
  int max_rounds = 61;
};

// The samples of one contender become the standing of its key, unless a variant has a better one.
void Enter(const std::string& key, const Spread& us, Standings& standings);

// Stopwatch: WarmUp(contender) calls it at least once; TimeUs(contender) returns the time of a call.
template <class Stopwatch>
Standings Race(std::span<const Contender> contenders, const RoundLimits& limits, Stopwatch& stopwatch) {
  using Clock = std::chrono::steady_clock;
  for (const Contender& contender : contenders) stopwatch.WarmUp(contender);
  // A round that does not count shows how many rounds fit in the budget.
  const auto begin = Clock::now();
  for (const Contender& contender : contenders) stopwatch.TimeUs(contender);
  const double round_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  int rounds = limits.min_rounds;
  while (rounds < limits.max_rounds && (rounds + 1) * round_ms <= limits.budget_ms) ++rounds;

  std::vector<std::vector<double>> us(contenders.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      // Each round begins with the next contender, so that none has a fixed predecessor.
      const std::size_t i = (turn + static_cast<std::size_t>(round)) % contenders.size();
      us[i].push_back(stopwatch.TimeUs(contenders[i]));
    }
  }
  Standings standings;
  for (std::size_t i = 0; i < contenders.size(); ++i) Enter(contenders[i].key, SpreadOf(us[i]), standings);
  return standings;
}

}  // namespace warpfold::benchmarks
