// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An array that stays in the memory of the server's device, and is reduced more than once. The server has to
// be told how much it may keep: warpfold-server --resident_bytes 1073741824.
//
//   kept_array [TARGET]
#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>

#include "warpfold/client.h"

int main(int argc, char** argv) {
  warpfold::Client client(argc > 1 ? argv[1] : warpfold::kDefaultTarget);
  std::vector<std::int64_t> values(1000);
  std::iota(values.begin(), values.end(), 0);

  const auto array = client.Put(values, {.time_to_live = absl::Minutes(5), .owner = "examples"});
  if (!array.ok()) {
    std::cerr << warpfold::ErrorText(array.status()) << "\n";
    return 1;
  }
  // The token stands for the array: anyone who has it may reduce it and delete it.
  for (const warpfold::ArrayReference& reference : {array->whole(), array->part(900, 100)}) {
    const auto reduction = client.ReduceReference({.operators = {"sum"}}, array->type, reference);
    if (!reduction.ok()) {
      std::cerr << warpfold::ErrorText(reduction.status()) << "\n";
      return 1;
    }
    std::cout << *reduction->results.front().As<std::int64_t>() << "\n";
  }
  if (const absl::Status status = client.DeleteArray(array->token); !status.ok()) {
    std::cerr << warpfold::ErrorText(status) << "\n";
    return 1;
  }
}
