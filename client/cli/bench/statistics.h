// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Figures of repeated measurements.
#pragma once

#include <span>
#include <vector>

namespace warpfold::cli {

// The smallest value that at least the fraction `share` of them (0 to 1) do not exceed: nearest rank.
// `sorted` is in ascending order; 0 if it is empty.
double Percentile(std::span<const double> sorted, double share);

struct Spread {
  double median = 0;  // of an even number, the mean of the two in the middle
  double min = 0;
  double max = 0;
};

// `values` must not be empty.
Spread SpreadOf(std::vector<double> values);

// The spread of a[i] / b[i], as far as neither is 0; its median is that of a over that of b.
Spread RatioOf(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace warpfold::cli
