// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace warpfold::cli {

double Percentile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return 0;
  // A share such as 0.999 is a little off as a double, which must not make it the next rank.
  constexpr double kRounding = 1e-9;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()) - kRounding);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Spread RatioOf(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] > 0 && b[i] > 0) ratios.push_back(a[i] / b[i]);
  }
  if (ratios.empty()) return {};
  Spread ratio = SpreadOf(ratios);
  if (const double below = SpreadOf(b).median; below > 0) ratio.median = SpreadOf(a).median / below;
  return ratio;
}

}  // namespace warpfold::cli
