// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The load: concurrent callers, each with calls one after the other, for some time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/array.h"
#include "client/cli/bench/caller.h"

namespace warpfold::cli {

// Pseudo-random elements, which every side is sent. No page of it is the kernel's page of zeros.
class BenchMemory {
 public:
  BenchMemory(ElementType type, std::uint64_t bytes);

  // The part of one of `callers`, a whole number of elements.
  std::span<const std::byte> PartOf(int caller, int callers) const;

 private:
  std::uint64_t element_bytes_;
  std::uint64_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

// Hands out arrays of a caller's memory, from beginning to end, over and over. Threads: one at a time.
class Walk {
 public:
  // `bytes` is at most the memory's size.
  Walk(std::span<const std::byte> memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes) {}

  std::span<const std::byte> Next();

 private:
  std::span<const std::byte> memory_;
  std::uint64_t bytes_;
  std::uint64_t offset_ = 0;
};

struct LoadTimes {
  absl::Duration duration;  // no call is begun after it
  absl::Duration pause;     // of a caller, between two calls
};

// What one round of load showed.
struct LoadResult {
  double seconds = 0;  // until the last call had ended
  std::vector<double> latencies_us;
  Timings timings;     // the server's, summed over all calls
  std::string device;  // as the responses name it
  double client_cpu_s = 0;
  std::optional<double> server_cpu_s;
};

// Runs all callers at once, callers[i] with the arrays of walks[i], each for one call at least. The first
// error ends all. `server_pid`: whose CPU time to read.
absl::StatusOr<LoadResult> RunLoad(std::span<const Caller> callers, std::span<Walk> walks,
                                   const LoadTimes& times, std::optional<int> server_pid);

}  // namespace warpfold::cli
