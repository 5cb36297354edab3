// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What clients of the simulation say to ArrayService, and to the reflection service.
#pragma once

#include <cstdint>

#include "tests/server/simulation/stream_script.h"

namespace warpfold::server {

// Puts an array that no other script of the world puts.
Script PutScript(Random& random, std::uint64_t identity);

// Asks for an array of `kept`, for a list, or for the end of an array.
Script ArrayServiceScript(Random& random, const KeptArrays& kept);

Script ReflectionScript(Random& random);

}  // namespace warpfold::server
