// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A received message: slices of memory owned by the transport, and a reference that keeps them alive.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/core/wire/byte_slices.h"

namespace warpfold::server {

struct Message {
  std::vector<ByteSlice> slices;      // in order; the message is their concatenation
  std::shared_ptr<const void> owner;  // the slices are valid as long as this is held

  // A message that owns its bytes, in one slice.
  static Message Of(std::string bytes) {
    auto owned = std::make_shared<const std::string>(std::move(bytes));
    return {.slices = {std::as_bytes(std::span(*owned))}, .owner = owned};
  }
};

}  // namespace warpfold::server
