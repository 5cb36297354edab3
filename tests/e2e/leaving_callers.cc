// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// leaving_callers TARGET MEMORY_SOCKET HOW CALLS SEED: makes this many calls from four threads and leaves in
// the middle of them. HOW is cancelled, late (a timeout that is too short), or killed: then it calls without
// end, and the process that started it kills it. The arrays are striped, sent to be kept for a second, or in
// registered memory. Prints how many calls ended with each status; a value that is not right counts as
// "wrong".
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/shared_memory.h"

namespace {

using warpfold::CallOptions;

constexpr int kThreads = 4;
constexpr std::size_t kElements = std::size_t{1} << 20;
constexpr int kMaxPatienceUs = 20'000;

struct Caller {
  warpfold::Client& client;
  const std::vector<std::int32_t>& ones;
  warpfold::MemoryConnection memory;
};

// OK, "wrong" or the status of one call, of one of three kinds.
std::string CallOnce(Caller& caller, int kind, const CallOptions& options) {
  absl::StatusOr<std::int64_t> sum = static_cast<std::int64_t>(kElements);
  if (kind == 0) {
    sum = caller.client.Reduce(warpfold::kSum, caller.ones, options);
  } else if (kind == 1) {
    const auto kept = caller.client.Put(caller.ones, {.time_to_live = absl::Seconds(1)}, options);
    if (!kept.ok()) sum = kept.status();
  } else {
    const auto shared = caller.memory.Allocate(kElements * sizeof(std::int32_t));
    if (!shared.ok()) return "MEMORY_" + absl::StatusCodeToString(shared.status().code());
    std::memcpy(shared->data().data(), caller.ones.data(), shared->data().size());
    const auto reduction =
        caller.client.ReduceReference({.operators = {"sum"}}, warpfold::ElementType::kInt32,
                                      {.token = shared->token(), .element_count = kElements}, options);
    sum = reduction.ok() ? reduction->results.front().As<std::int64_t>() : reduction.status();
  }
  if (!sum.ok()) return absl::StatusCodeToString(sum.status().code());
  return *sum == static_cast<std::int64_t>(kElements) ? "OK" : "wrong";
}

std::string CallAndLeave(Caller& caller, const std::string& how, std::mt19937& random) {
  const auto patience = std::chrono::microseconds(random() % kMaxPatienceUs);
  CallOptions options = {.streams = 2};
  const int kind = static_cast<int>(random() % 3);
  if (how == "late") options.timeout = absl::FromChrono(patience);
  if (how != "cancelled") return CallOnce(caller, kind, options);
  std::stop_source stop;
  options.stop = stop.get_token();
  const std::jthread canceller([&stop, patience] {
    std::this_thread::sleep_for(patience);
    stop.request_stop();
  });
  return CallOnce(caller, kind, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  warpfold::Client client{std::string(argv[1])};
  const std::string how = argv[3];
  const int calls = std::atoi(argv[4]);
  const int seed = std::atoi(argv[5]);
  const std::vector<std::int32_t> ones(kElements, 1);
  std::atomic<int> begun = 0;
  std::mutex mutex;
  std::map<std::string, int> ends;  // guarded by mutex
  std::cout << "begun" << std::endl;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      auto memory = warpfold::MemoryConnection::Open(argv[2]);
      if (!memory.ok()) std::exit(1);
      Caller caller = {.client = client, .ones = ones, .memory = *std::move(memory)};
      for (int call = begun++; how == "killed" || call < calls; call = begun++) {
        std::mt19937 random(static_cast<unsigned>(seed + call));
        const std::string end = CallAndLeave(caller, how, random);
        const std::lock_guard lock(mutex);
        ++ends[end];
      }
    });
  }
  threads.clear();
  for (const auto& [end, count] : ends) std::cout << end << " " << count << "\n";
}
