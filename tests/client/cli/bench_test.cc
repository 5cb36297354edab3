// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of `warpfold bench` that need no server: figures, flags, the way through memory, the report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <variant>
#include <vector>

#include "client/cli/bench/load.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/statistics.h"
#include "client/cli/flags.h"

namespace warpfold::cli {
namespace {

TEST(StatisticsTest, PercentilesAreTheNearestRank) {
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 1);
  EXPECT_EQ(Percentile(values, 0), 1);
  EXPECT_EQ(Percentile(values, 0.5), 500);
  EXPECT_EQ(Percentile(values, 0.9), 900);
  EXPECT_EQ(Percentile(values, 0.99), 990);
  EXPECT_EQ(Percentile(values, 0.999), 999);
  EXPECT_EQ(Percentile(values, 1), 1000);
}

TEST(StatisticsTest, PercentilesOfFewValues) {
  const std::vector<double> values = {1, 2, 3};
  EXPECT_EQ(Percentile(values, 0.5), 2);
  EXPECT_EQ(Percentile(values, 0.9), 3);
  EXPECT_EQ(Percentile(values, 0.999), 3);
  EXPECT_EQ(Percentile({}, 0.5), 0);
}

TEST(StatisticsTest, SpreadIsOfUnsortedValues) {
  const Spread odd = SpreadOf({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
}

TEST(StatisticsTest, RatioIsOfMediansAndItsSpreadOfRounds) {
  const Spread ratio = RatioOf({2, 6, 4}, {4, 2, 1});
  EXPECT_EQ(ratio.median, 2);
  EXPECT_EQ(ratio.min, 0.5);
  EXPECT_EQ(ratio.max, 4);
  EXPECT_EQ(RatioOf({1}, {0}).median, 0);
}

std::variant<BenchFlags, int> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"warpfold", "bench"});
  const auto line = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  if (const int* exit_code = std::get_if<int>(&line)) return *exit_code;
  return std::get<BenchFlags>(std::get<CommandLine>(line).command);
}

BenchFlags Parsed(const std::vector<const char*>& arguments) {
  return std::get<BenchFlags>(Parse(arguments));
}

TEST(BenchFlagsTest, DefaultsFollowTheMethod) {
  EXPECT_EQ(Parsed({}).bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(Parsed({}).method, BenchMethod::kReduce);
  EXPECT_EQ(Parsed({"--method", "array"}).bytes, 4096u);
  EXPECT_EQ(Parsed({"--method", "array", "--bytes", "64"}).bytes, 64u);
  EXPECT_EQ(Parsed({"--method", "health"}).bytes, 0u);
  EXPECT_EQ(Parsed({"--method", "info"}).bytes, 0u);
}

TEST(BenchFlagsTest, AllFlags) {
  const BenchFlags flags = Parsed({"--target",
                                   "unix:/x",
                                   "--server_pid",
                                   "7",
                                   "--baseline",
                                   "--bytes",
                                   "1048576",
                                   "--streams",
                                   "2",
                                   "--callers",
                                   "3",
                                   "--op",
                                   "min,max",
                                   "--dtype",
                                   "int16",
                                   "--chunk_bytes",
                                   "65536",
                                   "--json",
                                   "--rounds",
                                   "5",
                                   "--duration",
                                   "0.25",
                                   "--warm_up",
                                   "0",
                                   "--pause_ms",
                                   "1.5",
                                   "--memory_bytes",
                                   "4096",
                                   "--source",
                                   "chunks"});
  EXPECT_EQ(flags.server_pid, 7);
  EXPECT_TRUE(flags.baseline && flags.json);
  EXPECT_EQ(flags.bytes, 1048576u);
  EXPECT_EQ(flags.streams, 2);
  EXPECT_EQ(flags.callers, 3);
  EXPECT_EQ(flags.op, "min,max");
  EXPECT_EQ(flags.type, ElementType::kInt16);
  EXPECT_EQ(flags.chunk_bytes, 65536u);
  EXPECT_EQ(flags.rounds, 5);
  EXPECT_EQ(flags.duration_s, 0.25);
  EXPECT_EQ(flags.warm_up_s, 0);
  EXPECT_EQ(flags.pause_ms, 1.5);
  EXPECT_EQ(flags.memory_bytes, 4096u);
}

TEST(BenchFlagsTest, WhatDoesNotFitTogetherExitsWith2) {
  const std::vector<std::vector<const char*>> bad = {
      {"--method", "sum"},
      {"--source", "ipc"},
      {"--generated", "--streams", "2"},
      {"--generated", "--method", "array"},
      {"--generated", "--source", "resident"},
      {"--method", "array", "--streams", "2"},
      {"--method", "health", "--bytes", "8"},
      {"--bytes", "65536"},  // not a stream
      {"--bytes", "1048577"},
      {"--method", "array", "--bytes", "0"},
      {"--method", "array", "--bytes", "4194308"},  // not a message
      {"--bytes", "9223372036854775808", "--callers", "2"},
      {"--bytes", "-4"},
      {"--chunk_bytes", "1000000"},
      {"--chunk_bytes", "1024"},
      {"--streams", "65"},
      {"--streams", "0", "--baseline"},
      {"--streams", "0", "--method", "array"},
      {"--callers", "0"},
      {"--rounds", "0"},
      {"--duration", "0"},
      {"--json", "--csv"},
      {"--transport", "tcp"},
      {"--server", "/no/such/file"},
      {"--op", "summ"},
      {"--baseline", "--op", "sum,describe"},
      {"--dtype", "int128"},
      {"--segment_length", "0"},
      {"--segment_length", "3"},
      {"--segment_length", "4", "--method", "health"},
      {"--segment_length", "4", "--streams", "2"},
      {"--segment_length", "4", "--baseline"},
      {"--segment_length", "4", "--generated"},
      {"--results", "shared", "--source", "resident", "--memory_socket", "/a"},
      {"--segment_length", "4", "--results", "shared", "--memory_socket", "/a"},
      {"--segment_length", "4", "--results", "gpu", "--source", "resident"},
      {"--target", "127.0.0.1:50051,127.0.0.1:50052"},
  };
  for (const std::vector<const char*>& arguments : bad) {
    const auto outcome = Parse(arguments);
    ASSERT_TRUE(std::holds_alternative<int>(outcome)) << testing::PrintToString(arguments);
    EXPECT_EQ(std::get<int>(outcome), kExitUsage) << testing::PrintToString(arguments);
  }
}

TEST(BenchMemoryTest, CallersHavePartsOfTheirOwnWithoutPagesOfZeros) {
  const BenchMemory memory(ElementType::kFloat64, 1 << 20);
  const auto first = memory.PartOf(0, 3);
  const auto last = memory.PartOf(2, 3);
  EXPECT_EQ(first.size() % sizeof(double), 0u);
  EXPECT_EQ(first.data() + 2 * first.size(), last.data());
  for (std::size_t page = 0; page + 4096 <= last.size(); page += 4096) {
    const auto bytes = last.subspan(page, 4096);
    EXPECT_TRUE(std::any_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{0}; }));
  }
}

TEST(WalkTest, GoesFromBeginToEndAndBeginsAgain) {
  const std::vector<std::byte> memory(10);
  Walk walk(memory, 4);
  EXPECT_EQ(walk.Next().data(), &memory[0]);
  EXPECT_EQ(walk.Next().data(), &memory[4]);
  EXPECT_EQ(walk.Next().data(), &memory[0]);
  EXPECT_EQ(walk.Next().size(), 4u);
}

// Three rounds of two calls each. Only the sink's process is known.
std::vector<SideResult> TwoSides() {
  LoadResult ours;
  ours.seconds = 2;
  ours.latencies_us = {1e6, 1e6};
  ours.timings.queue = absl::Microseconds(30);
  ours.client_cpu_s = 0.5;
  LoadResult sink;
  sink.seconds = 1;
  sink.latencies_us = {4e5, 6e5};
  sink.client_cpu_s = 0.5;
  sink.server_cpu_s = 0.25;
  return {{"warpfold", {ours, ours, ours}}, {"async_copy", {sink, sink, sink}}};
}

TEST(ReportTest, FiguresOfARound) {
  BenchFlags flags;
  flags.bytes = 1'000'000'000;
  const auto lines = ReportLines(flags, "tcp", TwoSides());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["calls"], 6);
  EXPECT_EQ(lines[0]["total_bytes"], 6'000'000'000);
  EXPECT_EQ(lines[0]["seconds"], 6.0);
  EXPECT_EQ(lines[0]["gbps"], 1.0);
  EXPECT_EQ(lines[0]["calls_per_s"], 1.0);
  EXPECT_EQ(lines[0]["queue_us"], 15.0);
  EXPECT_EQ(lines[0]["client_cpu_s_per_gb"], 0.25);
  EXPECT_TRUE(lines[0]["server_cpu_s_per_gb"].is_null());
  EXPECT_EQ(lines[0]["rate_ratio"], 1.0);
  EXPECT_EQ(lines[1]["server_cpu_s_per_gb"], 0.125);
  EXPECT_EQ(lines[1]["p50_us"], 4e5);
  EXPECT_EQ(lines[1]["rate_ratio"], 0.5);
  EXPECT_EQ(lines[1]["p50_ratio"], 2.0);
}

TEST(ReportTest, TextsHaveALinePerSide) {
  BenchFlags flags;
  flags.op = "min,max";
  flags.bytes = 4096;
  const auto lines = ReportLines(flags, "unix", TwoSides());
  const auto count = [](const std::string& text, char what) {
    return std::count(text.begin(), text.end(), what);
  };
  EXPECT_EQ(count(JsonText(lines), '\n'), 2);
  const std::string csv = CsvText(lines);
  EXPECT_EQ(count(csv, '\n'), 3);
  EXPECT_THAT(csv, testing::StartsWith("bench,date,commit,"));
  EXPECT_THAT(csv, testing::HasSubstr(",\"min,max\","));
  // The operators' comma stands twice, the others are between names and cells.
  EXPECT_EQ(count(csv, ','), 3 * static_cast<int>(lines[0].size() - 1) + 2);
  flags.commit = "a\"b,c";
  EXPECT_THAT(CsvText(ReportLines(flags, "unix", TwoSides())), testing::HasSubstr(",\"a\"\"b,c\","));
  EXPECT_THAT(TableText(lines),
              testing::HasSubstr("warpfold to async_copy: 0.5 times the rate (0.5 to 0.5)"));
}

TEST(ReportTest, TheTableSaysWhatWasLoaded) {
  std::vector<SideResult> sides = TwoSides();
  for (LoadResult& round : sides.front().rounds) round.device = "cpu";
  BenchFlags flags;
  flags.bytes = 4096;
  const auto title = [&] {
    const std::string text = TableText(ReportLines(flags, "unix", sides));
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(title(), "reduce sum float32, 4096 bytes from chunks, 1 stream, 1 caller, unix, cpu");
  flags.streams = 2;
  flags.callers = 3;
  EXPECT_EQ(title(), "reduce sum float32, 4096 bytes from chunks, 2 streams, 3 callers, unix, cpu");
  flags.streams = 0;
  EXPECT_THAT(title(), testing::HasSubstr(", streams as the server advises, 3 callers"));
  flags.method = BenchMethod::kInfo;  // a call without an array, of which no device is known
  flags.bytes = 0;
  for (LoadResult& round : sides.front().rounds) round.device = "";
  EXPECT_EQ(title(), "info, 3 callers, unix");
}

TEST(ReportTest, HowMemoryGotToTheServer) {
  std::vector<SideResult> sides = TwoSides();
  sides.front().set_up_ms = 3;
  BenchFlags flags;
  flags.bytes = 4096;
  flags.source = BenchSource::kMemory;
  EXPECT_THAT(TableText(ReportLines(flags, "unix", sides)),
              testing::HasSubstr("\nMemory handed over in 3 ms\n"));
  flags.source = BenchSource::kResident;
  EXPECT_THAT(TableText(ReportLines(flags, "unix", sides)), testing::HasSubstr("\nArrays put in 3 ms\n"));
}

}  // namespace
}  // namespace warpfold::cli
