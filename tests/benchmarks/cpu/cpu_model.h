// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace warpfold::benchmarks {

// What the CPU calls itself: "AMD EPYC 9654 96-Core Processor". "unknown" where it does not say.
std::string CpuModel();

}  // namespace warpfold::benchmarks
