// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An array of int32 that arrives piece by piece on standard input, and whose length nobody knows beforehand.
//
//   standard_input [TARGET] < FILE
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <span>

#include "warpfold/client.h"

int main(int argc, char** argv) {
  warpfold::Client client(argc > 1 ? argv[1] : warpfold::kDefaultTarget);
  auto writer = client.OpenWriter({.operators = {"sum"}}, warpfold::ElementType::kInt32);
  if (!writer.ok()) {
    std::cerr << warpfold::ErrorText(writer.status()) << "\n";
    return 1;
  }
  std::array<char, 4096> piece;
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), stdin)) {
    // An error is final, and Commit returns the same one.
    if (!writer->Write(std::as_bytes(std::span(piece.data(), count))).ok()) break;
  }
  // Without a commit there is no result: a program that ends here leaves no wrong sum behind. A C++ stream
  // would not distinguish a failed read from the end.
  if (std::ferror(stdin) != 0) {
    std::perror("standard input");
    return 1;
  }
  const auto reduction = writer->Commit();
  if (!reduction.ok()) {
    std::cerr << warpfold::ErrorText(reduction.status()) << "\n";
    return 1;
  }
  std::cout << *reduction->results.front().As<std::int64_t>() << "\n";
}
