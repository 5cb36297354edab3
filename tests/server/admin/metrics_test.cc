// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the pages, without a server: metrics of calls and devices, the text format, the table of
// calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/admin/call_metrics.h"
#include "server/admin/call_table.h"
#include "server/admin/service_metrics.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

using ::testing::HasSubstr;

TEST(DeviceMetricsTest, EachDeviceHasItsOwn) {
  Exposition out;
  WriteDevice(out, DeviceSampler::Sample{.time = absl::UnixEpoch(),
                                         .telemetry = FakeBackend(2, 4096, 2).Telemetry()});
  for (const char* sample :
       {"warpfold_device_temperature_celsius{device=\"fake:0\"} 41",
        "warpfold_device_temperature_celsius{device=\"fake:1\"} 42",
        "warpfold_device_memory_errors_total{device=\"fake:1\",kind=\"uncorrected\"} 0"}) {
    EXPECT_THAT(out.text(), HasSubstr(absl::StrCat("\n", sample, "\n")));
  }
  const std::string family = "# TYPE warpfold_device_temperature_celsius";
  EXPECT_EQ(out.text().find(family), out.text().rfind(family));
}

TEST(CallMetricsTest, MethodsOfAllServicesHaveNames) {
  const std::vector<std::string> names = MethodNames();
  for (const char* name :
       {"Reduce", "ReduceArray", "Merge", "GetServerInfo", "ReduceSegments", "PutArray", "ListArrays",
        "GetArray", "DeleteArray", "Check", "Watch", "ServerReflectionInfo"}) {
    EXPECT_THAT(names, testing::Contains(name));
  }
}

TEST(CallMetricsTest, WhatHasNoReasonCountsByItsCode) {
  CallMetrics metrics;
  CallRecord record;
  record.method = "Check";
  record.status = absl::CancelledError("gone");
  metrics.Add(record);
  Exposition out;
  metrics.Write(out);
  EXPECT_THAT(out.text(), HasSubstr("warpfold_rejections_total{reason=\"CANCELLED\"} 1\n"));
}

// Zeros of stages that did not occur would make the others look short.
TEST(CallMetricsTest, OnlyStagesThatOccurredCount) {
  CallMetrics metrics;
  const auto add = [&](const absl::Status& status, const StageTimes& stages) {
    CallRecord record;
    record.status = status;
    record.stages = stages;
    metrics.Add(record);
  };
  add(absl::OkStatus(), {.queue = absl::ZeroDuration(),
                         .receive = absl::Seconds(2),
                         .copy = absl::Seconds(3),
                         .kernel = absl::Seconds(4)});
  add(absl::OkStatus(), {.kernel = absl::Seconds(1)});
  add(absl::InternalError("no"), {.queue = absl::Seconds(1), .receive = absl::Seconds(1)});
  add(absl::InternalError("no"), {});
  Exposition out;
  metrics.Write(out);
  for (const auto& [stage, count, sum] :
       {std::tuple("queue", 2, 1), {"receive", 1, 2}, {"copy", 1, 3}, {"kernel", 2, 5}}) {
    const std::string family = "\nwarpfold_stage_duration_seconds";
    EXPECT_THAT(out.text(), HasSubstr(absl::StrCat(family, "_count{stage=\"", stage, "\"} ", count, "\n")));
    EXPECT_THAT(out.text(), HasSubstr(absl::StrCat(family, "_sum{stage=\"", stage, "\"} ", sum, "\n")));
  }
}

TEST(CallMetricsTest, UnheardOfNamesCountAsOther) {
  CallMetrics metrics;
  for (int i = 0; i < 100; ++i) {
    CallRecord record;
    record.method = absl::StrCat("M", i, "\"\n");
    record.status = kernels::Error(static_cast<absl::StatusCode>(100 + i), absl::StrCat("R", i), "no");
    metrics.Add(record);
  }
  Exposition out;
  metrics.Write(out);
  EXPECT_THAT(out.text(), HasSubstr("warpfold_calls_total{method=\"other\",code=\"UNKNOWN\"} 100\n"));
  EXPECT_THAT(out.text(), HasSubstr("warpfold_rejections_total{reason=\"other\"} 100\n"));
}

TEST(ExpositionTest, EscapesWhatLabelsHold) {
  Exposition out;
  out.Family("a", "gauge", "one\ntwo\\");
  out.Sample({{"b", "\"\\\n"}}, 0.1);
  EXPECT_EQ(out.text(), "# HELP a one\\ntwo\\\\\n# TYPE a gauge\na{b=\"\\\"\\\\\\n\"} 0.1\n");
}

TEST(CallTableTest, LiveCallsComeOldestFirst) {
  CallTable table({"Reduce"});
  for (const int second : {3, 1, 2, 5, 4}) {
    auto call = std::make_shared<LiveCall>();
    call->method = "Reduce";
    call->begin = absl::UnixEpoch() + absl::Seconds(second);
    table.Add(call);
  }
  std::vector<absl::Time> begins;
  for (const auto& call : table.Live()) begins.push_back(call->begin);
  EXPECT_EQ(begins.size(), 5u);
  EXPECT_TRUE(std::is_sorted(begins.begin(), begins.end()));
}

}  // namespace
}  // namespace warpfold::server
