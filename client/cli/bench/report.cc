// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/report.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "client/cli/bench/statistics.h"
#include "client/cli/json.h"
#include "client/cli/output.h"

namespace warpfold::cli {
namespace {

using Json = nlohmann::ordered_json;

// More digits than a measurement is precise to.
double Rounded(double value) { return std::strtod(absl::StrFormat("%.5g", value).c_str(), nullptr); }

// A figure of each round.
std::vector<double> OfRounds(const SideResult& side, const std::function<double(const LoadResult&)>& figure) {
  std::vector<double> figures;
  for (const LoadResult& round : side.rounds) figures.push_back(figure(round));
  return figures;
}

std::uint64_t BytesOf(const LoadResult& round, const BenchFlags& flags) {
  return round.latencies_us.size() * flags.bytes;
}

std::vector<double> Gbps(const SideResult& side, const BenchFlags& flags) {
  return OfRounds(side, [&](const LoadResult& round) {
    return static_cast<double>(BytesOf(round, flags)) * 1e-9 / round.seconds;
  });
}

std::vector<double> CallsPerSecond(const SideResult& side) {
  return OfRounds(side, [](const LoadResult& round) {
    return static_cast<double>(round.latencies_us.size()) / round.seconds;
  });
}

std::vector<double> SortedLatenciesUs(const SideResult& side) {
  std::vector<double> all;
  for (const LoadResult& round : side.rounds) {
    all.insert(all.end(), round.latencies_us.begin(), round.latencies_us.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<double> MediansUs(const SideResult& side) {
  return OfRounds(side, [](const LoadResult& round) { return SpreadOf(round.latencies_us).median; });
}

void AddSpread(const std::string& key, const Spread& spread, Json& line) {
  line[key] = Rounded(spread.median);
  line[key + "_min"] = Rounded(spread.min);
  line[key + "_max"] = Rounded(spread.max);
}

void AddCpu(const SideResult& side, const BenchFlags& flags, Json& line) {
  const auto add = [&](const std::string& who, const std::function<double(const LoadResult&)>& cpu_s) {
    const double calls_us = SpreadOf(OfRounds(side, [&](const LoadResult& round) {
                              return cpu_s(round) * 1e6 / static_cast<double>(round.latencies_us.size());
                            })).median;
    line[who + "_cpu_us_per_call"] = Rounded(calls_us);
    if (flags.bytes == 0) {
      line[who + "_cpu_s_per_gb"] = nullptr;
    } else {
      line[who + "_cpu_s_per_gb"] = Rounded(calls_us * 1e3 / static_cast<double>(flags.bytes));
    }
  };
  add("client", [](const LoadResult& round) { return round.client_cpu_s; });
  if (side.rounds.front().server_cpu_s.has_value()) {
    add("server", [](const LoadResult& round) { return round.server_cpu_s.value_or(0); });
  } else {
    line["server_cpu_us_per_call"] = nullptr;
    line["server_cpu_s_per_gb"] = nullptr;
  }
}

// The mean of all calls, in microseconds. The phases overlap.
void AddStages(const SideResult& side, std::uint64_t calls, Json& line) {
  const auto add = [&](const char* key, absl::Duration Timings::*stage) {
    absl::Duration sum;
    for (const LoadResult& round : side.rounds) sum += round.timings.*stage;
    line[key] = Rounded(absl::ToDoubleMicroseconds(sum) / static_cast<double>(calls));
  };
  add("queue_us", &Timings::queue);
  add("receive_us", &Timings::receive);
  add("copy_us", &Timings::copy);
  add("kernel_us", &Timings::kernel);
}

Json Conditions(const BenchFlags& flags, const std::string& transport) {
  Json line;
  line["bench"] = "load";
  line["date"] = absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone());
  line["commit"] = flags.commit;
  line["cores"] = std::thread::hardware_concurrency();
  line["transport"] = transport;
  line["method"] = MethodName(flags.method);
  line["source"] = SourceName(flags.source);
  line["operator"] = flags.op;
  line["dtype"] = std::string(ElementTypeName(flags.type));
  line["bytes"] = flags.bytes;
  line["chunk_bytes"] = flags.chunk_bytes;
  line["streams"] = flags.streams;
  if (flags.segment_length > 0) line["segment_length"] = flags.segment_length;
  if (flags.results != BenchResults::kSent) line["results"] = ResultsName(flags.results);
  line["callers"] = flags.callers;
  line["pause_ms"] = flags.pause_ms;
  line["rounds"] = flags.rounds;
  return line;
}

std::string Number(const Json& value) {
  if (value.is_null()) return "-";
  const auto number = value.get<double>();
  if (number == 0 || number >= 100) return absl::StrFormat("%.0f", number);
  return absl::StrFormat("%.3g", number);
}

std::string CsvCell(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");  // RFC 4180
}

// "1 caller", "2 callers".
std::string Counted(int count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// What every side was loaded with. Calls that have no array have no operator either, and no device.
std::string TitleOf(const Json& line) {
  std::vector<std::string> parts = {line["method"].get<std::string>()};
  if (const auto bytes = line["bytes"].get<std::uint64_t>(); bytes > 0) {
    absl::StrAppend(&parts[0], " ", line["operator"].get<std::string>(), " ",
                    line["dtype"].get<std::string>());
    parts.push_back(absl::StrCat(bytes, " bytes from ", line["source"].get<std::string>()));
    const int streams = line["streams"].get<int>();
    parts.push_back(streams == 0 ? "streams as the server advises" : Counted(streams, "stream"));
  }
  parts.push_back(Counted(line["callers"].get<int>(), "caller"));
  parts.push_back(line["transport"].get<std::string>());
  if (const auto device = line["device"].get<std::string>(); !device.empty())
    parts.push_back(Printable(device));
  return absl::StrCat(absl::StrJoin(parts, ", "), "\n");
}

}  // namespace

std::vector<Json> ReportLines(const BenchFlags& flags, const std::string& transport,
                              std::span<const SideResult> sides) {
  std::vector<Json> lines;
  for (const SideResult& side : sides) {
    Json line = Conditions(flags, transport);
    line["side"] = side.name;
    line["device"] = side.rounds.front().device;
    if (side.set_up_ms.has_value()) {
      line["set_up_ms"] = Rounded(*side.set_up_ms);
    } else {
      line["set_up_ms"] = nullptr;
    }
    const std::vector<double> latencies_us = SortedLatenciesUs(side);
    double seconds = 0;
    for (const LoadResult& round : side.rounds) seconds += round.seconds;
    line["calls"] = latencies_us.size();
    line["total_bytes"] = latencies_us.size() * flags.bytes;
    line["seconds"] = Rounded(seconds);
    AddSpread("gbps", SpreadOf(Gbps(side, flags)), line);
    AddSpread("calls_per_s", SpreadOf(CallsPerSecond(side)), line);
    line["p50_us"] = Rounded(Percentile(latencies_us, 0.5));
    line["p90_us"] = Rounded(Percentile(latencies_us, 0.9));
    line["p99_us"] = Rounded(Percentile(latencies_us, 0.99));
    line["p999_us"] = Rounded(Percentile(latencies_us, 0.999));
    line["max_us"] = Rounded(latencies_us.back());
    AddCpu(side, flags, line);
    AddStages(side, latencies_us.size(), line);
    AddSpread("rate_ratio", RatioOf(CallsPerSecond(sides.front()), CallsPerSecond(side)), line);
    AddSpread("p50_ratio", RatioOf(MediansUs(sides.front()), MediansUs(side)), line);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string JsonText(std::span<const Json> lines) {
  std::string text;
  for (const Json& line : lines) absl::StrAppend(&text, AsciiJson(line), "\n");
  return text;
}

std::string CsvText(std::span<const Json> lines) {
  std::vector<std::string> names;
  for (const auto& [name, value] : lines.front().items()) names.push_back(name);
  std::string text = absl::StrCat(absl::StrJoin(names, ","), "\n");
  for (const Json& line : lines) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : line.items()) cells.push_back(CsvCell(value));
    absl::StrAppend(&text, absl::StrJoin(cells, ","), "\n");
  }
  return text;
}

std::string TableText(std::span<const Json> lines) {
  const Json& first = lines.front();
  std::string text = TitleOf(first);
  const auto row = [&text](const std::string& name, const std::vector<std::string>& cells) {
    absl::StrAppendFormat(&text, "%-14s", name);
    for (const std::string& cell : cells) absl::StrAppendFormat(&text, " %9s", cell);
    text.push_back('\n');
  };
  row("", {"GB/s", "least", "most", "calls/s", "p50 us", "p90", "p99", "p99.9", "server's", "client's"});
  for (const Json& line : lines) {
    std::vector<std::string> cells;
    for (const char* key : {"gbps", "gbps_min", "gbps_max", "calls_per_s", "p50_us", "p90_us", "p99_us",
                            "p999_us", "server_cpu_s_per_gb", "client_cpu_s_per_gb"}) {
      cells.push_back(Number(line[key]));
    }
    row(line["side"].get<std::string>(), cells);
  }
  absl::StrAppend(&text, "Columns server's and client's: CPU seconds per GB\n");
  absl::StrAppendFormat(&text, "Server, means of a call in us: queue %s, receive %s, copy %s, kernel %s\n",
                        Number(first["queue_us"]), Number(first["receive_us"]), Number(first["copy_us"]),
                        Number(first["kernel_us"]));
  if (!first["set_up_ms"].is_null()) {
    const bool is_put = first["source"] == SourceName(BenchSource::kResident);
    absl::StrAppendFormat(&text, "%s in %s ms\n", is_put ? "Arrays put" : "Memory handed over",
                          Number(first["set_up_ms"]));
  }
  for (const Json& line : lines.subspan(1)) {
    absl::StrAppendFormat(
        &text, "%s to %s: %s times the rate (%s to %s), %s times the median latency (%s to %s)\n",
        first["side"].get<std::string>(), line["side"].get<std::string>(), Number(line["rate_ratio"]),
        Number(line["rate_ratio_min"]), Number(line["rate_ratio_max"]), Number(line["p50_ratio"]),
        Number(line["p50_ratio_min"]), Number(line["p50_ratio_max"]));
  }
  return text;
}

}  // namespace warpfold::cli
