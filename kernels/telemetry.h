// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a device's driver reports about its state, for those who monitor it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace warpfold::kernels {

// What the driver does not report is left out, for example on GPUs without ECC.
struct DeviceTelemetry {
  std::string device;                              // "cuda:0"
  std::optional<std::uint64_t> memory_bytes;       // in all
  std::optional<std::uint64_t> memory_used_bytes;  // by all processes
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  // Memory errors since the driver was loaded.
  std::optional<std::uint64_t> corrected_errors;
  std::optional<std::uint64_t> uncorrected_errors;
};

}  // namespace warpfold::kernels
