// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// steady_callers TARGET CALLS [TIMEOUT_S]: calls a service from four threads, with small arrays and with
// striped ones, until all calls are made. Prints how many failed, and each failure on a line: the status, or
// "wrong" for a value that is not right. If there is a timeout, the last line has the seconds that the
// slowest call took. It stands for a user of the client library in rolling restarts and in networks with
// faults. WARPFOLD_ENDS_TO in the environment is a descriptor to which a digit is sent whenever a call has
// ended: that of its thread.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/tune_grpc.h"

namespace {

constexpr int kThreads = 4;
constexpr int kLargeEvery = 10;
constexpr int kStreams = 2;

void WriteDigit(int descriptor, int digit) {
  const char text = static_cast<char>('0' + digit);
  if (write(descriptor, &text, 1) != 1) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  warpfold::TuneGrpc().IgnoreError();
  // Servers are separated by a semicolon, since commas separate the addresses of one name.
  warpfold::Client client(std::vector<std::string>(absl::StrSplit(argv[1], ';')));
  const int calls = std::atoi(argv[2]);
  const absl::Duration timeout = absl::Seconds(argc == 4 ? std::atoi(argv[3]) : 60);
  const std::vector<std::int32_t> small(1000, 1);
  const std::vector<std::int32_t> large(std::size_t{4} << 20, 1);
  const char* const ends_to = std::getenv("WARPFOLD_ENDS_TO");
  std::atomic<int> begun = 0;
  std::atomic<int> failed = 0;
  std::mutex output;
  absl::Duration slowest;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int call = begun++; call < calls; call = begun++) {
        const auto& values = call % kLargeEvery == 0 ? large : small;
        const warpfold::CallOptions options = {.timeout = timeout,
                                               .streams = call % kLargeEvery == 0 ? kStreams : 0};
        const absl::Time start = absl::Now();
        const auto sum = client.Reduce(warpfold::kSum, values, options);
        const absl::Duration took = absl::Now() - start;
        const bool right = sum.ok() && *sum == static_cast<std::int64_t>(values.size());
        const std::lock_guard lock(output);
        slowest = std::max(slowest, took);
        if (ends_to != nullptr) WriteDigit(std::atoi(ends_to), i);
        if (right) continue;
        ++failed;
        if (sum.ok()) std::cout << "wrong\n";
        if (!sum.ok()) std::cout << absl::StrReplaceAll(sum.status().ToString(), {{"\n", " "}}) << "\n";
      }
    });
  }
  threads.clear();
  std::cout << "failed " << failed << " of " << calls << std::endl;
  if (argc == 4) std::cout << absl::ToDoubleSeconds(slowest) << std::endl;
}
