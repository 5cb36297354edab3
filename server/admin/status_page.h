// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The page /statusz: what runs, with which flags and limits, which calls are being served, and what failed
// recently.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/admin/admin.h"
#include "server/admin/call_table.h"
#include "server/admin/device_sampler.h"

namespace warpfold::server {

// Self-contained HTML. `now` is the time of day. From any thread; does not wait.
std::string StatusPage(const AdminSources& sources, const CallTable& table,
                       const std::optional<DeviceSampler::Sample>& device, absl::Time now);

}  // namespace warpfold::server
