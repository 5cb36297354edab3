// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace warpfold::benchmarks {

// The CPU's name for itself: "AMD EPYC 9654 96-Core Processor". "unknown" if it has none.
std::string CpuModel();

}  // namespace warpfold::benchmarks
