// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/generated_arrays.h"
#include "client/cli/output.h"
#include "client/client.h"

namespace warpfold::cli {
namespace {

constexpr std::uint64_t kSmallBytes = 1024;

std::vector<std::byte> RandomBytes(ElementType type, std::uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  RandomGenerator(type, /*seed=*/1)(0, data);
  return data;
}

// Runs one call `times` times; their durations in ascending order.
absl::StatusOr<std::vector<absl::Duration>> Repeat(Client& client, const Spec& spec, const BenchFlags& flags,
                                                   std::span<const std::byte> data, int streams, int times,
                                                   std::string& device) {
  std::vector<absl::Duration> durations;
  for (int i = 0; i < times; ++i) {
    const absl::StatusOr<Reduction> reduction =
        client.ReduceBytes(spec, flags.type, data, {.streams = streams});
    if (!reduction.ok()) return reduction.status();
    durations.push_back(reduction->timings.total);
    device = reduction->device;
  }
  std::sort(durations.begin(), durations.end());
  return durations;
}

nlohmann::ordered_json Line(const char* bench, const BenchFlags& flags, std::uint64_t bytes,
                            const std::string& device) {
  return {{"bench", bench},
          {"operator", flags.op},
          {"dtype", std::string(ElementTypeName(flags.type))},
          {"bytes", bytes},
          {"device", device}};
}

int Print(const nlohmann::ordered_json& line, bool json, const std::string& text) {
  return PrintAnswer(json ? line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                          : text);
}

absl::StatusOr<int> BenchThroughput(Client& client, const Spec& spec, const BenchFlags& flags) {
  const std::uint64_t element_bytes = ElementTypeBytes(flags.type);
  const std::vector<std::byte> data = RandomBytes(flags.type, flags.bytes / element_bytes * element_bytes);
  std::string device;
  const auto seconds = Repeat(client, spec, flags, data, flags.streams, flags.repeat, device);
  if (!seconds.ok()) return seconds.status();
  const auto rate = [&](absl::Duration d) {
    return static_cast<double>(data.size()) * 1e-9 / absl::ToDoubleSeconds(d);
  };
  nlohmann::ordered_json line = Line("throughput", flags, data.size(), device);
  const double median = rate((*seconds)[seconds->size() / 2]);
  line["streams"] = flags.streams;
  line["repeat"] = flags.repeat;
  line["gbps"] = median;
  line["gbps_min"] = rate(seconds->back());
  line["gbps_max"] = rate(seconds->front());
  return Print(
      line, flags.json,
      absl::StrFormat("throughput %s %s, %d bytes, %d streams, %s: median %.3f GB/s (%.3f to %.3f)\n",
                      flags.op, ElementTypeName(flags.type), data.size(), flags.streams, device, median,
                      rate(seconds->back()), rate(seconds->front())));
}

absl::StatusOr<int> BenchLatency(Client& client, const Spec& spec, const BenchFlags& flags) {
  const std::vector<std::byte> data = RandomBytes(flags.type, kSmallBytes);
  std::string device;
  const auto durations = Repeat(client, spec, flags, data, 1, flags.calls, device);
  if (!durations.ok()) return durations.status();
  const auto quantile_us = [&](double q) {
    return absl::ToDoubleMicroseconds(
        (*durations)[static_cast<std::size_t>(q * static_cast<double>(durations->size() - 1))]);
  };
  nlohmann::ordered_json line = Line("latency", flags, data.size(), device);
  line["calls"] = flags.calls;
  line["p50_us"] = quantile_us(0.5);
  line["p99_us"] = quantile_us(0.99);
  line["max_us"] = quantile_us(1);
  return Print(line, flags.json,
               absl::StrFormat("latency %s %s, %d bytes, %s: p50 %.0f us, p99 %.0f us, max %.0f us\n",
                               flags.op, ElementTypeName(flags.type), data.size(), device, quantile_us(0.5),
                               quantile_us(0.99), quantile_us(1)));
}

}  // namespace

int RunBench(const Server& server, const BenchFlags& flags) {
  Client client(server.target, {.connections = flags.streams, .credentials = server.credentials});
  // Random integers overflow a sum or a product, which is not what is measured.
  const Spec spec = {.operators = absl::StrSplit(flags.op, ','), .wrap_overflow = true};
  for (const auto bench : {BenchLatency, BenchThroughput}) {
    const absl::StatusOr<int> exit_code = bench(client, spec, flags);
    if (!exit_code.ok()) return ReportServerError(exit_code.status());
    if (*exit_code != kExitOk) return *exit_code;
  }
  return kExitOk;
}

}  // namespace warpfold::cli
