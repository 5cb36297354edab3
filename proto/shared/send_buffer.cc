// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/send_buffer.h"

#include <sys/socket.h>

#include <optional>

namespace warpfold {
namespace {

std::optional<int> OptionOf(int descriptor, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  if (getsockopt(descriptor, SOL_SOCKET, option, &value, &size) != 0) return std::nullopt;
  return value;
}

}  // namespace

void WidenSendBuffer(int descriptor) {
  if (OptionOf(descriptor, SO_DOMAIN) != AF_UNIX) return;
  // An administrator may have given all sockets more.
  if (OptionOf(descriptor, SO_SNDBUF) >= 2 * kUnixSendBufferBytes) return;
  // If it fails the socket is as before.
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kUnixSendBufferBytes, sizeof(kUnixSendBufferBytes));
}

}  // namespace warpfold
