// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics of the current state: the pool of slots, calls in progress, memory, the device, the process. Each
// function writes whole families.
//
// Threads: any. None of the functions waits.
#pragma once

#include <optional>

#include "server/admin/admin.h"
#include "server/admin/call_table.h"
#include "server/admin/device_sampler.h"
#include "server/admin/exposition.h"

namespace warpfold::server {

void WriteReady(Exposition& out, bool is_ready);
void WriteServiceMetrics(Exposition& out, const AdminSources& sources, bool is_ready);
void WriteCallTable(Exposition& out, const CallTable& table);
// Writes only what the driver reports.
void WriteDevice(Exposition& out, const std::optional<DeviceSampler::Sample>& sample);
// The metrics that Prometheus' own client libraries export for a process, with the same names.
void WriteProcess(Exposition& out);

}  // namespace warpfold::server
