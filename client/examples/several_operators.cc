// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Several operators in one pass over the data, in one call; a product of matrices; and what an error tells a
// program.
//
//   several_operators [TARGET]
#include <cstdint>
#include <iostream>
#include <vector>

#include "warpfold/client.h"
#include "warpfold/error.h"

namespace {

// Prints one line for each operator: its value, or why it has none.
void Print(const warpfold::Reduction& reduction) {
  for (const warpfold::OperatorResult& result : reduction.results) {
    std::cout << result.name << " ";
    const auto value = result.As<double>();
    if (value.ok()) {
      std::cout << *value;
    } else {
      std::cout << warpfold::ErrorText(value.status());
    }
    if (result.index.has_value()) std::cout << " at " << *result.index;
    std::cout << "\n";
  }
}

// The product of three 2x2 matrices in the order of the array, modulo 2^32.
absl::Status PrintProduct(warpfold::Client& client) {
  const std::vector<std::uint32_t> matrices = {1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0};
  const auto product =
      client.Reduce({.operators = {"matrix_product"}, .matrix_shape = warpfold::MatrixShape{2, 2}}, matrices);
  if (!product.ok()) return product.status();
  std::cout << "matrix_product";
  for (const warpfold::Scalar& entry : std::get<warpfold::Matrix>(product->results.front().value).entries)
    std::cout << " " << std::get<std::uint64_t>(entry);
  std::cout << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  warpfold::Client client(argc > 1 ? argv[1] : warpfold::kDefaultTarget);
  const std::vector<float> values = {0.5F, 8.0F, -2.0F, 1.5F};

  // A deadline of ten seconds, including retries; the identifier appears in the server's log.
  const warpfold::CallOptions options = {.timeout = absl::Seconds(10), .request_id = "example-1"};
  const auto reduction = client.Reduce({.operators = {"mean", "argmax"}}, values, options);
  if (!reduction.ok()) {
    std::cerr << warpfold::ErrorText(reduction.status()) << "\n";
    return 1;
  }
  Print(*reduction);
  if (const absl::Status status = PrintProduct(client); !status.ok()) {
    std::cerr << warpfold::ErrorText(status) << "\n";
    return 1;
  }

  // The sum of these is above the largest int64: an error with a reason, not a wrong value.
  const std::vector<std::int64_t> large = {std::int64_t{1} << 62, std::int64_t{1} << 62};
  const auto sum = client.Reduce(warpfold::kSum, large);
  const auto info = warpfold::GetErrorInfo(sum.status());
  std::cout << absl::StatusCodeToString(sum.status().code()) << " "
            << (info.has_value() ? info->reason : "without a reason") << "\n";
}
