// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest value of each row of a matrix: many results from one pass over an array.
//
//   rows [TARGET]
#include <cstdint>
#include <iostream>
#include <vector>

#include "warpfold/client.h"
#include "warpfold/segments.h"

int main(int argc, char** argv) {
  warpfold::Client client(argc > 1 ? argv[1] : warpfold::kDefaultTarget);
  const std::vector<float> matrix = {3, 1, 4, 1, 5, 9, 2, 6, 5};  // three rows of three

  const auto table = client.ReduceSegments({.operators = {"min", "max"}}, matrix, {.length = 3});
  if (!table.ok()) {
    std::cerr << warpfold::ErrorText(table.status()) << "\n";
    return 1;
  }
  for (std::uint64_t row = 0; row < 3; ++row) {
    std::cout << "row " << row << ": " << table->columns[0].DoubleAt(row) << " to "
              << table->columns[1].DoubleAt(row) << "\n";
  }
}
