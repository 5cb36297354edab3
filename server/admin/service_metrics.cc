// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/service_metrics.h"

#include <string>
#include <utility>
#include <vector>

#include "server/process/process.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

void WriteMemory(Exposition& out, const AdminSources& sources) {
  const ResidentArrays::Room room = sources.service->residents.room();
  out.Gauge("warpfold_kept_array_capacity_bytes", "Device memory for kept arrays.", room.bytes);
  out.Gauge("warpfold_kept_array_bytes", "Device memory that kept arrays use.", room.bytes - room.free_bytes);
  out.Gauge("warpfold_kept_arrays",
            "Kept arrays, with those that are arriving, or are deleted and still read.",
            std::uint64_t{room.arrays});
  out.Gauge("warpfold_kept_arrays_limit", "Maximum number of kept arrays.",
            std::uint64_t{ResidentArrays::kMaxArrays});
  const RegistrationGauges registrations = sources.registrations();
  out.Gauge("warpfold_registrations", "Registrations of other processes' memory, which the server can read.",
            std::uint64_t{registrations.registrations});
  out.Gauge("warpfold_registered_bytes", "Bytes of registered memory.", registrations.bytes);
  out.Gauge("warpfold_registered_bytes_limit",
            "Maximum bytes of registered memory; 0 without a memory socket.", registrations.max_bytes);
  out.Family(
      "warpfold_registrations_rejected_total", "counter",
      "Requests on the memory socket that were rejected, by the reason in the response, and connections "
      "that were: of users who may not open any (NOT_ALLOWED), or beyond a user's half of all "
      "(connections).");
  for (std::size_t i = 0; i < registrations.rejections.size(); ++i) {
    out.Sample({{"reason", MemoryRejections::kReasons[i]}}, registrations.rejections[i]);
  }
  out.Gauge("warpfold_memory_budget_bytes",
            "Memory of the host that the server may come to use, as it logs at its start; registered memory "
            "is not included.",
            sources.memory_budget_bytes);
}

void WriteConnections(Exposition& out, const AdminSources& sources) {
  const ConnectionCounts connections = sources.connections();
  out.Gauge("warpfold_connections", "Connections that are open.", connections.open);
  out.Gauge("warpfold_connections_limit", "Maximum open connections; more are closed.", connections.limit);
  out.Counter("warpfold_connections_total", "Connections that were accepted.", connections.accepted);
  out.Family(
      "warpfold_connections_refused_total", "counter",
      "Connections that were closed: at once, beyond --max_connections or a peer's half of it (limit), from "
      "a peer that has cancelled or abandoned more calls than allowed (left_calls), or because no descriptor "
      "was left (descriptors); and later, because of a flood of frames (flood).");
  out.Sample({{"reason", "limit"}}, connections.beyond_limit);
  out.Sample({{"reason", "left_calls"}}, connections.left_calls);
  out.Sample({{"reason", "descriptors"}}, connections.no_descriptors);
  out.Sample({{"reason", "flood"}}, connections.floods);
  out.Counter("warpfold_grpc_errors_total",
              "Errors that gRPC logged, most often failed handshakes of unknown clients.",
              static_cast<std::uint64_t>(sources.grpc_errors()));
}

// Of the files that the server reads again when they change.
void WriteFiles(Exposition& out, const AdminSources& sources) {
  const std::vector<Reload> reloads = sources.reloads();
  if (!reloads.empty()) {
    out.Family("warpfold_reload_successful", "gauge",
               "1 if the latest content of the files is in use, 0 if it was rejected: keys (--tls_*), allow "
               "(--allow).");
    for (const Reload& reload : reloads)
      out.Sample({{"file", reload.file}}, std::uint64_t{reload.is_successful});
    out.Family("warpfold_reload_success_timestamp_seconds", "gauge", "When the content in use was loaded.");
    for (const Reload& reload : reloads) out.Sample({{"file", reload.file}}, Seconds(reload.used_since));
  }
  if (const std::optional<absl::Time> expiry = sources.certificate_expiry(); expiry.has_value()) {
    out.Gauge("warpfold_certificate_expiry_timestamp_seconds",
              "The earliest expiry of a certificate in the server's chain.", Seconds(*expiry));
  }
  if (const std::optional<absl::Time> expiry = sources.authorities_expiry(); expiry.has_value()) {
    out.Gauge("warpfold_client_authority_expiry_timestamp_seconds",
              "When the last certificate of --tls_client_ca expires, after which all clients are rejected.",
              Seconds(*expiry));
  }
}

}  // namespace

void WriteReady(Exposition& out, bool is_ready) {
  out.Gauge("warpfold_ready", "1 while the service accepts calls, 0 while it starts, drains or has failed.",
            std::uint64_t{is_ready});
}

void WriteServiceMetrics(Exposition& out, const AdminSources& sources, bool is_ready) {
  const Service& service = *sources.service;
  out.Family("warpfold_build_info", "gauge", "Always 1; the labels name the version, backend and device.");
  const std::string backend = service.backend.name();
  const std::string device = service.backend.device();
  out.Sample({{"version", kVersion}, {"backend", backend}, {"device", device}}, std::uint64_t{1});
  WriteReady(out, is_ready);
  const PoolGauges pool = sources.pool();
  out.Gauge("warpfold_slots", "Staging buffers (slots), each with a counterpart on the device.",
            service.limits.slots);
  out.Gauge("warpfold_slot_size_bytes", "Size of a slot.", service.limits.slot_bytes);
  out.Gauge("warpfold_slots_free", "Slots that are not in use.", std::uint64_t{pool.slots_free});
  out.Gauge("warpfold_slots_in_flight", "Slots that are being processed by the device.",
            std::uint64_t{pool.slots_in_flight});
  out.Gauge("warpfold_slot_waiters", "Calls that are waiting for a slot.", std::uint64_t{pool.waiting_calls});
  out.Gauge("warpfold_reductions_in_progress", "Reductions that have been admitted and have not ended.",
            static_cast<std::uint64_t>(service.admission.reductions()));
  out.Gauge("warpfold_merges_in_progress", "Merges that have been admitted and have not ended.",
            static_cast<std::uint64_t>(service.admission.merges()));
  out.Gauge("warpfold_reductions_limit",
            "Maximum concurrent reductions, and separately merges; more are rejected.",
            static_cast<std::uint64_t>(service.limits.max_concurrent_reductions));
  WriteMemory(out, sources);
  WriteConnections(out, sources);
  out.Counter("warpfold_log_lines_dropped_total",
              "Log lines that were lost because nobody read the log, or because it could not be written.",
              static_cast<std::uint64_t>(sources.log_lines_dropped()));
  WriteFiles(out, sources);
}

void WriteCallTable(Exposition& out, const CallTable& table) {
  const auto counts = table.CountsByMethod();
  out.Family("warpfold_calls_in_progress", "gauge", "Calls that have arrived and not ended.");
  for (const auto& [method, count] : counts) out.Sample({{"method", method}}, count.live);
  out.Family("warpfold_array_bytes_total", "counter",
             "Bytes of arrays that were received, or read from memory that the server can read.");
  for (const auto& [method, count] : counts) out.Sample({{"method", method}}, count.bytes);
}

void WriteDevice(Exposition& out, const std::optional<DeviceSampler::Sample>& sample) {
  if (!sample.has_value()) return;
  using Told = kernels::DeviceTelemetry;
  out.Gauge("warpfold_device_sample_timestamp_seconds", "When the driver reported the values of the devices.",
            Seconds(sample->time));
  const auto write = [&out, &sample](absl::string_view name, absl::string_view help, auto value) {
    bool has_family = false;
    for (const Told& told : sample->telemetry) {
      if (!(told.*value).has_value()) continue;
      if (!std::exchange(has_family, true)) out.Family(name, "gauge", help);
      out.Sample({{"device", told.device}}, *(told.*value));
    }
  };
  write("warpfold_device_memory_bytes", "Memory of the device.", &Told::memory_bytes);
  write("warpfold_device_memory_used_bytes", "Memory of the device that all processes use.",
        &Told::memory_used_bytes);
  write("warpfold_device_temperature_celsius", "Temperature of the GPU's chip.", &Told::temperature_celsius);
  write("warpfold_device_power_watts", "Power that the GPU draws.", &Told::power_watts);
  bool has_family = false;
  for (const Told& told : sample->telemetry) {
    const auto write_errors = [&](absl::string_view kind, const std::optional<std::uint64_t>& errors) {
      if (!errors.has_value()) return;
      if (!std::exchange(has_family, true)) {
        out.Family("warpfold_device_memory_errors_total", "counter",
                   "Errors of the device's memory (ECC) since its driver was loaded.");
      }
      out.Sample({{"device", told.device}, {"kind", kind}}, *errors);
    };
    write_errors("corrected", told.corrected_errors);
    write_errors("uncorrected", told.uncorrected_errors);
  }
}

void WriteProcess(Exposition& out) {
  out.Counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
              absl::ToDoubleSeconds(CpuTime()));
  // A process always has some: none means that it cannot be counted.
  if (const std::uint64_t bytes = Resident().bytes; bytes > 0)
    out.Gauge("process_resident_memory_bytes", "Resident memory size in bytes.", bytes);
  out.Gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
            Seconds(StartTime()));
  out.Gauge("process_max_fds", "Maximum number of open file descriptors.", DescriptorLimit());
  if (const std::optional<std::uint64_t> open = OpenDescriptors(); open.has_value())
    out.Gauge("process_open_fds", "Number of open file descriptors.", *open);
}

}  // namespace warpfold::server
