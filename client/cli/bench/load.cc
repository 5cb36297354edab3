// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/load.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/bench/child_process.h"
#include "client/cli/generated_arrays.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// What one caller saw.
struct CallerResult {
  absl::Status status;
  std::vector<double> latencies_us;
  Timings timings;
  std::string device;
};

void Add(const Timings& from, Timings& to) {
  to.queue += from.queue;
  to.receive += from.receive;
  to.copy += from.copy;
  to.kernel += from.kernel;
}

void RunCaller(const Caller& caller, Walk& walk, const LoadTimes& times, absl::Time end,
               std::atomic<bool>& failed, CallerResult& result) {
  if (failed) return;
  while (true) {
    const std::span<const std::byte> array = walk.Next();
    const absl::Time begin = SteadyNow();
    const absl::StatusOr<Reduction> reduction = caller(array);
    if (!reduction.ok()) {
      result.status = reduction.status();
      failed = true;
      return;
    }
    result.latencies_us.push_back(absl::ToDoubleMicroseconds(SteadyNow() - begin));
    Add(reduction->timings, result.timings);
    result.device = reduction->device;
    if (failed || SteadyNow() + times.pause >= end) return;
    if (times.pause > absl::ZeroDuration()) absl::SleepFor(times.pause);
  }
}

absl::StatusOr<double> ServerCpuSeconds(std::optional<int> pid) {
  return pid.has_value() ? CpuSecondsOf(*pid) : absl::StatusOr<double>(0);
}

}  // namespace

BenchMemory::BenchMemory(ElementType type, std::uint64_t bytes)
    : element_bytes_(ElementTypeBytes(type)),
      size_(bytes / element_bytes_ * element_bytes_),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(size_)) {
  const Generator generator = RandomGenerator(type, /*seed=*/1);
  const std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::uint64_t share = (size_ / threads / kPageBytes + 1) * kPageBytes;
  std::vector<std::jthread> fillers;
  for (std::uint64_t begin = 0; begin < size_; begin += share) {
    fillers.emplace_back([this, &generator, begin, share] {
      generator(begin, std::span(bytes_.get() + begin, std::min(share, size_ - begin)));
    });
  }
}

std::span<const std::byte> BenchMemory::PartOf(int caller, int callers) const {
  const std::uint64_t share = size_ / static_cast<std::uint64_t>(callers) / element_bytes_ * element_bytes_;
  return {bytes_.get() + static_cast<std::uint64_t>(caller) * share, share};
}

std::span<const std::byte> Walk::Next() {
  if (offset_ + bytes_ > memory_.size()) offset_ = 0;
  const std::span<const std::byte> array = memory_.subspan(offset_, bytes_);
  offset_ += bytes_;
  return array;
}

absl::StatusOr<LoadResult> RunLoad(std::span<const Caller> callers, std::span<Walk> walks,
                                   const LoadTimes& times, std::optional<int> server_pid) {
  std::vector<CallerResult> results(callers.size());
  std::atomic<bool> failed = false;
  std::latch start(static_cast<std::ptrdiff_t>(callers.size()));
  const absl::StatusOr<double> server_cpu_s = ServerCpuSeconds(server_pid);
  if (!server_cpu_s.ok()) return server_cpu_s.status();
  const double client_cpu_s = CpuSecondsOfSelf();
  const absl::Time begin = SteadyNow();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < callers.size() && !failed; ++i) {
      try {
        threads.emplace_back([&, i] {
          start.arrive_and_wait();
          RunCaller(callers[i], walks[i], times, begin + times.duration, failed, results[i]);
        });
      } catch (const std::system_error& error) {
        results[i].status =
            absl::ResourceExhaustedError(absl::StrCat("no thread for a caller: ", error.what()));
        failed = true;
        start.count_down(static_cast<std::ptrdiff_t>(callers.size() - i));  // those before it wait
      }
    }
  }
  LoadResult load;
  load.seconds = absl::ToDoubleSeconds(SteadyNow() - begin);
  load.client_cpu_s = CpuSecondsOfSelf() - client_cpu_s;
  const absl::StatusOr<double> server_cpu_s_after = ServerCpuSeconds(server_pid);
  if (!server_cpu_s_after.ok()) return server_cpu_s_after.status();
  if (server_pid.has_value()) load.server_cpu_s = *server_cpu_s_after - *server_cpu_s;
  for (const CallerResult& result : results) {
    if (!result.status.ok()) return result.status;
    load.latencies_us.insert(load.latencies_us.end(), result.latencies_us.begin(), result.latencies_us.end());
    Add(result.timings, load.timings);
    load.device = result.device;
  }
  return load;
}

}  // namespace warpfold::cli
