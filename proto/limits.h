// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers that clients and servers have to agree on, beside those of the leaf (proto/leaf.h).
#pragma once

#include <cstdint>

namespace warpfold {

// How many states servers take in one Merge.
inline constexpr int kMaxMergedStates = 1024;

// The client library sends arrays of up to this size in a single message, so that there is no stream to set
// up. Servers let such a message pass before chunks of larger arrays.
inline constexpr std::uint64_t kSmallArrayBytes = 64 << 10;

}  // namespace warpfold
