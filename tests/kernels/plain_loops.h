// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of operators, computed by plain loops that know nothing of states or of the canonical order: in
// long double, in which every element, and every sum of tame integers, is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace warpfold::kernels {

using Numbers = std::vector<long double>;

// An entry of a result.
long double NumberOf(const Scalar& scalar);
// The values of scalar elements.
Numbers NumbersOf(ElementType type, std::span<const std::byte> elements);

struct PlainValue {
  long double value = 0;
  // The error of arithmetic in float64 may be this times a few units of rounding.
  long double scale = 0;
  std::optional<std::uint64_t> index = {};
  std::optional<std::uint64_t> end_index = {};
};

// The results of `op` for `array`, which must not be empty or hold NaN: one value per field, in their order.
// Exact values may need more than float64.
std::vector<PlainValue> PlainValues(const std::string& op, const Numbers& array, std::uint64_t ddof = 0);

}  // namespace warpfold::kernels
