// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// overload_callers TARGET CALLERS BYTES SECONDS PAUSE_MS: this many callers, each on its own connection, call
// without end and never retry; a caller that is rejected pauses first. Each is a separate client, which does
// what the library does after a rejection: it asks first, and delays a call that comes too soon. Prints a
// JSON line with how many calls were right, refused and failed, and the times of the first two.
#include <malloc.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/connections/grpc_process.h"
#include "client/tune_grpc.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Calls {
  std::vector<double> right_us;
  std::vector<double> refused_us;
  std::map<std::string, int> failed;  // how many, by the message

  void Add(const Calls& other) {
    right_us.insert(right_us.end(), other.right_us.begin(), other.right_us.end());
    refused_us.insert(refused_us.end(), other.refused_us.begin(), other.refused_us.end());
    for (const auto& [what, count] : other.failed) failed[what] += count;
  }
};

void Connect(warpfold::Client& client) {
  absl::Status status = client.GetServerInfo().status();
  while (absl::IsResourceExhausted(status)) {  // this many may not ask at once, either
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = client.GetServerInfo().status();
  }
  if (status.ok()) return;
  std::cerr << status << std::endl;
  std::_Exit(1);
}

// The connection exists before the time begins: the measurement is of what a rejection takes, and not of what
// it takes the machine to open so many connections at once.
Calls CallFor(Clock::duration time, std::barrier<>& all_connected, const std::string& target,
              const std::vector<std::int32_t>& ones, std::chrono::milliseconds pause) {
  warpfold::Client client(target, {.max_attempts = 1});
  Calls calls;
  Connect(client);
  all_connected.arrive_and_wait();
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    const auto begin = Clock::now();
    const auto sum = client.Reduce(warpfold::kSum, ones, {.timeout = absl::Seconds(60), .streams = 1});
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (sum.ok() && *sum == static_cast<std::int64_t>(ones.size())) {
      calls.right_us.push_back(us);
    } else if (sum.status().code() == absl::StatusCode::kResourceExhausted) {
      calls.refused_us.push_back(us);
      std::this_thread::sleep_for(pause);
    } else {
      ++calls.failed[sum.ok() ? "wrong" : std::string(sum.status().message())];
      std::this_thread::sleep_for(pause);
    }
  }
  return calls;
}

// Does as `warpfold bench` does: gRPC takes what comes in between for connect()'s errno
// (client/connections/grpc_process.h), and the C library counts processors in a file that a container may
// lack, unless it is told how many arenas to make.
void PrepareToConnect() {
  mallopt(M_ARENA_MAX, 8);
  warpfold::LookUpCpuFrequency();
  warpfold::TuneGrpc().IgnoreError();
}

// 0 if there are none.
double Percentile(std::vector<double>& times, double share) {
  if (times.empty()) return 0;
  const auto nth = times.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), nth, times.end());
  return *nth;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  PrepareToConnect();
  const std::vector<std::int32_t> ones(std::strtoull(argv[3], nullptr, 10) / sizeof(std::int32_t), 1);
  const auto time =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::atof(argv[4])));
  const std::chrono::milliseconds pause(std::atoi(argv[5]));
  const int count = std::atoi(argv[2]);
  std::barrier all_connected(count);
  std::mutex mutex;
  Calls all;  // guarded by mutex
  std::vector<std::jthread> callers;
  for (int i = 0; i < count; ++i) {
    callers.emplace_back([&] {
      const Calls calls = CallFor(time, all_connected, argv[1], ones, pause);
      const std::lock_guard lock(mutex);
      all.Add(calls);
    });
  }
  callers.clear();
  const nlohmann::ordered_json line = {{"right", all.right_us.size()},
                                       {"refused", all.refused_us.size()},
                                       {"failed", all.failed},
                                       {"right_p50_us", Percentile(all.right_us, 0.5)},
                                       {"right_p99_us", Percentile(all.right_us, 0.99)},
                                       {"refused_p50_us", Percentile(all.refused_us, 0.5)},
                                       {"refused_p99_us", Percentile(all.refused_us, 0.99)}};
  std::cout << line.dump() << std::endl;
}
