// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many rows of a matrix that the server keeps, whose means are written to memory that it shares with this
// program: neither the matrix nor the means are sent. This is for a program on the server's machine, with a
// server that was started with --memory_socket and --resident_bytes.
//
//   rows_in_memory TARGET SOCKET
#include <cstdint>
#include <iostream>
#include <span>
#include <vector>

#include "warpfold/client.h"
#include "warpfold/segments.h"
#include "warpfold/shared_memory.h"

namespace {

constexpr std::uint64_t kRows = 1'000;
constexpr std::uint64_t kColumns = 64;

int Fail(const absl::Status& status) {
  std::cerr << warpfold::ErrorText(status) << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: rows_in_memory TARGET SOCKET\n";
    return 2;
  }
  std::vector<float> matrix(kRows * kColumns);
  for (std::uint64_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i / kColumns);
  warpfold::Client client(argv[1]);
  const auto kept = client.Put(matrix);
  if (!kept.ok()) return Fail(kept.status());
  const auto server = warpfold::MemoryConnection::Open(argv[2]);
  if (!server.ok()) return Fail(server.status());
  const auto memory = server->Allocate(kRows * sizeof(double), warpfold::MemoryAccess::kReadWrite);
  if (!memory.ok()) return Fail(memory.status());

  // A mean is one column of doubles: SegmentColumnsOf says so.
  const auto summary = client.ReduceSegmentsReference(
      {.operators = {"mean"}}, warpfold::ElementType::kFloat32, kept->whole(),
      {.length = kColumns, .results = warpfold::ResultsReference{memory->token()}},
      [](const warpfold::SegmentResults&) {});
  if (!summary.ok()) return Fail(summary.status());
  const std::span<const double> means(reinterpret_cast<const double*>(memory->data().data()), kRows);
  std::cout << summary->segment_count << " means, the last of them " << means.back() << "\n";
  if (const absl::Status deleted = client.DeleteArray(kept->token); !deleted.ok()) return Fail(deleted);
}
