// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Plays the scenario once, with calls of CUDA that fail.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/kernels/cuda_shim/scenario.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {

// The error with which each call, by its number from 1 on, fails.
using Failures = std::map<std::size_t, int>;
std::string ToString(const Failures& failures);  // "12:700,13:1"
std::optional<Failures> ParseFailures(const std::string& text);

// Whether the call gives something back that still exists if the call fails.
bool IsRelease(const CallSite& site);

struct Played {
  std::vector<CallSite> calls;
  std::vector<std::size_t> steps;     // for each call, the number of the step that made it
  std::optional<std::size_t> failed;  // the first step that reported failure,
  absl::Status status;                // and what it reported
  absl::Status loss;                  // the status of the step that reported loss of the device
};

// Plays it, and fails the test unless all of these hold, whatever fails:
//
//   A step that reports OK has computed what the CPU computes.
//   After a step that has failed without loss of the device, nothing is left to be done on it, every slot
//   works, and so does the same step. After a step that reports that the device is lost, the backend
//   reports this, too, every other step reports the same, and nothing calls CUDA any more. After the end
//   nothing is left, unless the device is lost or the call that was to give it back has failed, and nothing
//   was given back twice.
Played Play(const Failures& failures);

}  // namespace warpfold::kernels::shim
