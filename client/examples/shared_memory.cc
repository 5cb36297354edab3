// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that the server maps and reads: no byte of the array is sent. This is for a program on the server's
// machine, with a server that was started with --memory_socket.
//
//   shared_memory TARGET SOCKET
#include "warpfold/shared_memory.h"

#include <cstdint>
#include <iostream>
#include <numeric>
#include <span>

#include "warpfold/client.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: shared_memory TARGET SOCKET\n";
    return 2;
  }
  constexpr std::uint64_t kCount = 1'000'001;
  const auto server = warpfold::MemoryConnection::Open(argv[2]);
  if (!server.ok()) {
    std::cerr << warpfold::ErrorText(server.status()) << "\n";
    return 1;
  }
  const auto memory = server->Allocate(kCount * sizeof(double));
  if (!memory.ok()) {
    std::cerr << warpfold::ErrorText(memory.status()) << "\n";
    return 1;
  }
  // The memory is aligned to a page.
  const std::span<double> values(reinterpret_cast<double*>(memory->data().data()), kCount);
  std::iota(values.begin(), values.end(), 0.0);

  warpfold::Client client(argv[1]);
  const auto reduction = client.ReduceReference({.operators = {"mean"}}, warpfold::ElementType::kFloat64,
                                                {memory->token(), 0, kCount});
  if (!reduction.ok()) {
    std::cerr << warpfold::ErrorText(reduction.status()) << "\n";
    return 1;
  }
  std::cout << *reduction->results.front().As<double>() << "\n";
}
