// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What clients of the simulation say to ReduceSegments. Half of them have their values written to memory.
#pragma once

#include <cstdint>

#include "tests/server/simulation/stream_script.h"

namespace warpfold::server {

// The array is sent in pieces, of which none is taken or many are.
Script SegmentsScript(Random& random, std::uint64_t identity, const KeptArrays& kept);

// The array lies on the devices: only the header and the lengths come.
Script KeptSegmentsScript(Random& random, std::uint64_t identity, const KeptArrays& kept);

}  // namespace warpfold::server
