// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_page.h"

#include <unistd.h>

#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "kernels/error.h"
#include "server/process/process.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

// If there are thousands of calls, only the oldest are of interest.
constexpr std::size_t kMaxCallsShown = 100;

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>warpfold-server</title>
<style>
body { font: 14px/1.4 system-ui, "DejaVu Sans", sans-serif; margin: 1.5em; color: #222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 1.2em 0 .3em; }
table { border-collapse: collapse; }
th, td { padding: .15em .8em .15em 0; text-align: left; vertical-align: top; }
th { font-weight: 600; color: #555; }
tr + tr { border-top: 1px solid #eee; } .columns { display: flex; flex-wrap: wrap; gap: 0 4em; }
.ready { color: #176b2c; } .not { color: #a11; } p { margin: .2em 0; color: #555; }
</style></head><body>
)";

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string Bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024; value /= 1024) ++unit;
  return absl::StrFormat("%.4g %s", value, kUnits[unit]);
}

std::string Age(absl::Duration age) {
  return absl::FormatDuration(
      absl::Trunc(age, age < absl::Seconds(10) ? absl::Milliseconds(1) : absl::Seconds(1)));
}

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::UTCTimeZone());
}

// Names and values below each other.
using Rows = std::vector<std::pair<std::string, std::string>>;
std::string Section(absl::string_view title, const Rows& rows) {
  std::string html = absl::StrCat("<section><h2>", title, "</h2><table>");
  for (const auto& [name, value] : rows) {
    absl::StrAppend(&html, "<tr><th>", Escaped(name), "</th><td>", Escaped(value), "</td></tr>\n");
  }
  return html + "</table></section>\n";
}

std::string TableHead(std::initializer_list<const char*> names) {
  std::string html = "<table><tr>";
  for (const char* const name : names) absl::StrAppend(&html, "<th>", name, "</th>");
  return html + "</tr>\n";
}

std::string Row(std::initializer_list<std::string> cells) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) absl::StrAppend(&html, "<td>", Escaped(cell), "</td>");
  return html + "</tr>\n";
}

// `of` is what names say about the device if there are several.
void AddTelemetry(Rows& rows, const kernels::DeviceTelemetry& told, const std::string& of) {
  if (told.memory_bytes.has_value() && told.memory_used_bytes.has_value()) {
    rows.emplace_back(of + "device memory", absl::StrCat(Bytes(*told.memory_used_bytes), " of ",
                                                         Bytes(*told.memory_bytes), " used"));
  }
  if (told.temperature_celsius.has_value()) {
    rows.emplace_back(of + "temperature", absl::StrCat(*told.temperature_celsius, " °C"));
  }
  if (told.power_watts.has_value()) rows.emplace_back(of + "power", absl::StrCat(*told.power_watts, " W"));
  if (told.corrected_errors.has_value()) {
    rows.emplace_back(of + "memory errors, corrected", absl::StrCat(*told.corrected_errors));
  }
  if (told.uncorrected_errors.has_value()) {
    rows.emplace_back(of + "memory errors, uncorrected", absl::StrCat(*told.uncorrected_errors));
  }
}

Rows DeviceRows(const AdminSources& sources, const std::optional<DeviceSampler::Sample>& sample) {
  const kernels::Backend& backend = sources.service->backend;
  Rows rows = {{"version", kVersion},
               {"backend", backend.name()},
               {"device", backend.device()},
               {"addresses", absl::StrJoin(sources.addresses, ", ")},
               {"process", absl::StrCat(getpid(), ", since ", DateOf(StartTime()), " UTC")}};
  for (const Reload& reload : sources.reloads()) {
    rows.emplace_back(reload.file, absl::StrCat("of ", DateOf(reload.used_since), " UTC",
                                                reload.is_successful ? "" : "; newer ones were refused"));
  }
  if (const auto expiry = sources.certificate_expiry(); expiry.has_value()) {
    rows.emplace_back("certificate expires", DateOf(*expiry) + " UTC");
  }
  if (!sample.has_value()) return rows;
  for (const kernels::DeviceTelemetry& told : sample->telemetry) {
    AddTelemetry(rows, told, sample->telemetry.size() > 1 ? told.device + " " : "");
  }
  return rows;
}

Rows LimitRows(const Limits& limits, const ConnectionCounts& connections) {
  return {{"connections", absl::StrCat(connections.limit)},
          {"reductions at once", absl::StrCat(limits.max_concurrent_reductions)},
          {"array of a stream", Bytes(limits.max_stream_bytes)},
          {"payload of a message", Bytes(kMaxPayloadBytes)},
          {"a call's duration", absl::FormatDuration(limits.call.duration)},
          {"a client's silence", absl::FormatDuration(limits.call.idle)}};
}

Rows PoolRows(const AdminSources& sources) {
  const Service& service = *sources.service;
  const PoolGauges pool = sources.pool();
  const ResidentArrays::Room room = service.residents.room();
  const RegistrationGauges registrations = sources.registrations();
  return {
      {"slots", absl::StrCat(service.limits.slots, " of ", Bytes(service.limits.slot_bytes))},
      {"free", absl::StrCat(pool.slots_free)},
      {"on the device", absl::StrCat(pool.slots_in_flight)},
      {"calls waiting", absl::StrCat(pool.waiting_calls)},
      {"connections", absl::StrCat(sources.connections().open)},
      {"reductions in progress", absl::StrCat(service.admission.reductions())},
      {"merges in progress", absl::StrCat(service.admission.merges())},
      {"kept arrays", absl::StrCat(room.arrays, " of ", ResidentArrays::kMaxArrays, ", with ",
                                   Bytes(room.bytes - room.free_bytes), " of ", Bytes(room.bytes))},
      {"registered memory", absl::StrCat(Bytes(registrations.bytes), " of ", Bytes(registrations.max_bytes),
                                         ", in ", registrations.registrations, " registrations")},
      {"log lines dropped", absl::StrCat(sources.log_lines_dropped())}};
}

std::string CallsSection(const AdminSources& sources, const CallTable& table) {
  const auto calls = table.Live();
  const absl::Time now = sources.service->clock();
  std::string html = absl::StrCat("<h2>Calls in progress: ", calls.size(), "</h2>");
  if (calls.empty()) return html;
  absl::StrAppend(&html, TableHead({"method", "age", "array so far", "peer", "identity", "trace"}));
  for (std::size_t i = 0; i < calls.size() && i < kMaxCallsShown; ++i) {
    const LiveCall& call = *calls[i];
    absl::StrAppend(
        &html, Row({call.method, Age(now - call.begin), Bytes(call.bytes.load(std::memory_order_relaxed)),
                    call.peer, call.identity, call.trace.has_value() ? call.trace->trace_id : ""}));
  }
  absl::StrAppend(&html, "</table>");
  if (calls.size() > kMaxCallsShown) absl::StrAppend(&html, "<p>the oldest ", kMaxCallsShown, "</p>");
  return html;
}

std::string FailuresSection(const CallTable& table) {
  const std::vector<CallTable::Failure> failures = table.Failures();
  std::string html = absl::StrCat("<h2>Last errors</h2>");
  if (failures.empty()) return html + "<p>none</p>\n";
  absl::StrAppend(&html,
                  TableHead({"time (UTC)", "method", "status", "reason", "message", "peer", "request"}));
  for (const auto& [time, record] : failures) {
    absl::StrAppend(&html, Row({DateOf(time), record.method, absl::StatusCodeToString(record.status.code()),
                                kernels::ErrorReason(record.status), std::string(record.status.message()),
                                record.peer, record.request_id}));
  }
  return html + "</table>\n";
}

}  // namespace

std::string StatusPage(const AdminSources& sources, const CallTable& table,
                       const std::optional<DeviceSampler::Sample>& device, absl::Time now) {
  const Service& service = *sources.service;
  const bool ready = service.is_serving();
  return absl::StrCat(
      kHead, "<h1>warpfold-server: <span class=\"", ready ? "ready\">ready" : "not\">not ready",
      "</span></h1><p>", DateOf(now), " UTC</p><div class=\"columns\">",
      Section("Build and device", DeviceRows(sources, device)), Section("Pool and memory", PoolRows(sources)),
      Section("Limits", LimitRows(service.limits, sources.connections())), "</div>",
      CallsSection(sources, table), FailuresSection(table), Section("Flags", sources.flags),
      "</body></html>\n");
}

}  // namespace warpfold::server
