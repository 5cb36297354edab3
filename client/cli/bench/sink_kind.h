// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The servers that `warpfold bench` compares with: they take an array and do next to nothing with it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace warpfold::cli {

enum class SinkKind : std::uint8_t {
  kRawSocket,    // read() into a staging buffer, without gRPC
  kAsyncCopy,    // gRPC's raw messages, a thread for each completion queue, which copies them to its staging
                 // buffer
  kAsyncDrop,    // the same without the copy
  kAsyncHold,    // keeps messages until they fill as much as a GPU's slot, and then drops them all
  kPlainService  // the generated synchronous service, which copies the chunks to a staging buffer
};

inline constexpr std::array<std::pair<SinkKind, const char*>, 5> kSinks = {{
    {SinkKind::kRawSocket, "raw_socket"},
    {SinkKind::kAsyncCopy, "async_copy"},
    {SinkKind::kAsyncDrop, "async_drop"},
    {SinkKind::kAsyncHold, "async_hold"},
    {SinkKind::kPlainService, "plain_service"},
}};

}  // namespace warpfold::cli
