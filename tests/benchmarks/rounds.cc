// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/rounds.h"

#include <algorithm>
#include <cmath>

namespace warpfold::benchmarks {

Spread SpreadOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double quantile) {
    return samples[static_cast<std::size_t>(std::lround(quantile * static_cast<double>(samples.size() - 1)))];
  };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(samples.size())};
}

void Enter(const std::string& key, const Spread& us, Standings& standings) {
  const auto [standing, is_new] = standings.emplace(key, us);
  if (!is_new && us.median < standing->second.median) standing->second = us;
}

}  // namespace warpfold::benchmarks
