// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cpu/cpu_model.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace warpfold::benchmarks {

std::string CpuModel() {
  std::ifstream lines("/proc/cpuinfo");
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t colon = line.find(':');
    if (absl::StartsWith(line, "model name") && colon != std::string::npos) {
      return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return "unknown";
}

}  // namespace warpfold::benchmarks
