// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/cub_row.h"

namespace warpfold::benchmarks {

const CubRow* FindCubRow(absl::string_view operator_name, absl::string_view dtype) {
  for (const auto rows : {CubSums(), CubProducts(), CubExtrema(), CubBitwise(), CubArgExtrema()}) {
    for (const CubRow& row : rows) {
      if (row.operator_name == operator_name && row.dtype == dtype) return &row;
    }
  }
  return nullptr;
}

}  // namespace warpfold::benchmarks
