// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of a vector: the least that a program needs. As README.md shows it.
//
//   sum [TARGET]
#include <cstdint>
#include <iostream>
#include <vector>

#include "warpfold/client.h"

int main(int argc, char** argv) {
  warpfold::Client client(argc > 1 ? argv[1] : "127.0.0.1:50051");
  const std::vector<std::int32_t> values = {3, 1, 4, 1, 5};

  const auto sum = client.Reduce(warpfold::kSum, values);  // StatusOr<int64_t>
  if (!sum.ok()) {
    std::cerr << warpfold::ErrorText(sum.status()) << "\n";
    return 1;
  }
  std::cout << *sum << "\n";
}
