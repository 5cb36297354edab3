// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Floats whose products neither vanish nor overflow nor lose information, however many there are: a change of
// any of them, or of their order, is as large in the product of a hundred million as in that of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace warpfold::kernels::cuda {

// Elements repeat after this many: a prime, so that no two subtrees start alike before that.
inline constexpr int kLongProductPeriod = 251;

inline double FromMinusOneToOne(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) / static_cast<double>(std::uint64_t{1} << 52) - 1;
}

// Near 1 and -1. The product of a period is -1, except for rounding.
template <class T>
std::vector<T> LongProductFactors(std::mt19937_64& random) {
  std::vector<T> factors;
  double product = 1;
  for (int i = 1; i < kLongProductPeriod; ++i) {
    const double magnitude = 1 + FromMinusOneToOne(random) / 32;
    factors.push_back(static_cast<T>(random() % 2 == 0 ? magnitude : -magnitude));
    product *= factors.back();
  }
  factors.push_back(static_cast<T>(-1 / product));
  return factors;
}

// Rows (a, b). A period maps x to c - x, so that offsets, too, stay as small as those of one period.
template <class T>
std::vector<T> LongProductMaps(std::mt19937_64& random) {
  std::vector<T> maps;
  for (const T factor : LongProductFactors<T>(random)) {
    maps.push_back(factor);
    maps.push_back(static_cast<T>(FromMinusOneToOne(random)));
  }
  return maps;
}

// A matrix times the reflection in the plane across a random vector.
inline void Reflect(std::vector<double>& matrix, std::uint32_t dimension, std::mt19937_64& random) {
  std::vector<double> across(dimension);
  double square = 0;
  for (double& x : across) {
    x = FromMinusOneToOne(random);
    square += x * x;
  }
  for (std::size_t row = 0; row < matrix.size(); row += dimension) {
    double along = 0;
    for (std::uint32_t i = 0; i < dimension; ++i) along += matrix[row + i] * across[i];
    for (std::uint32_t i = 0; i < dimension; ++i) matrix[row + i] -= 2 * along / square * across[i];
  }
}

// Orthogonal, with one reflection or two: rotations alone would commute if matrices are 2 x 2.
template <class T>
std::vector<T> LongProductMatrices(std::uint32_t dimension, std::mt19937_64& random) {
  std::vector<T> matrices;
  for (int i = 0; i < kLongProductPeriod; ++i) {
    std::vector<double> matrix(std::size_t{dimension} * dimension);
    for (std::size_t j = 0; j < matrix.size(); j += dimension + 1) matrix[j] = 1;
    Reflect(matrix, dimension, random);
    if (random() % 2 == 0) Reflect(matrix, dimension, random);
    for (const double entry : matrix) matrices.push_back(static_cast<T>(entry));
  }
  return matrices;
}

}  // namespace warpfold::kernels::cuda
