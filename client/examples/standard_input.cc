// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An array of int32 that arrives piece by piece on standard input, and whose length nobody knows beforehand.
//
//   standard_input [TARGET] < FILE
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>

#include "warpfold/client.h"

int main(int argc, char** argv) {
  warpfold::Client client(argc > 1 ? argv[1] : warpfold::kDefaultTarget);
  auto writer = client.OpenWriter({.operators = {"sum"}}, warpfold::ElementType::kInt32);
  if (!writer.ok()) {
    std::cerr << writer.status() << "\n";
    return 1;
  }
  std::array<char, 4096> piece;
  while (std::cin.read(piece.data(), piece.size()), std::cin.gcount() > 0) {
    const std::span read(piece.data(), static_cast<std::size_t>(std::cin.gcount()));
    // An error is final, and Commit answers the same.
    if (!writer->Write(std::as_bytes(read)).ok()) break;
  }
  // Without a commit there is no result: a program that dies here leaves no wrong sum behind.
  const auto reduction = writer->Commit();
  if (!reduction.ok()) {
    std::cerr << reduction.status() << "\n";
    return 1;
  }
  std::cout << *reduction->results.front().As<std::int64_t>() << "\n";
}
