// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream sockets without gRPC, and the protocol of the sink kRawSocket: for each array the client sends its
// size, 8 bytes in the machine's order, and its bytes; the sink returns the number of bytes that it read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace warpfold::cli {

// An open socket. Threads: one may send while another receives.
class RawSocket {
 public:
  // `address` is "IPv4:port" or "unix:/path".
  static absl::StatusOr<RawSocket> Connect(const std::string& address);
  static absl::StatusOr<RawSocket> Listen(const std::string& address);

  RawSocket(RawSocket&& other) noexcept;
  RawSocket& operator=(RawSocket&& other) = delete;
  ~RawSocket();

  // Waits for the next connection to a listening socket.
  absl::StatusOr<RawSocket> Accept();
  // Nothing more comes: threads that wait for something are told so. From any thread.
  void Shutdown();
  // "IPv4:port" with the port that was bound, or "unix:/path".
  std::string address() const;

  absl::Status Send(std::span<const std::byte> bytes);
  // Fills the buffer. OUT_OF_RANGE if the peer has sent all.
  absl::Status Receive(std::span<std::byte> buffer);

 private:
  explicit RawSocket(int descriptor) : descriptor_(descriptor) {}
  void SendWithoutDelay() const;

  int descriptor_;
};

}  // namespace warpfold::cli
