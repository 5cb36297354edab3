// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A memory socket over a fake backend, beside the server of RpcTest, and a client on it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/shared_memory.h"
#include "server/memory/memory_socket.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/elsewhere_fixture.h"
#include "tests/temporary_folder.h"

namespace warpfold::server {

class MemorySocketTest : public ElsewhereTest {
 protected:
  static constexpr std::uint64_t kMaxRegisteredBytes = std::uint64_t{1} << 20;
  static constexpr absl::Duration kIdle = absl::Milliseconds(100);
  static constexpr absl::Duration kSealing = absl::Seconds(2);
  static constexpr absl::Duration kProbing = absl::Seconds(3);
  static constexpr absl::Duration kRoom = absl::Seconds(5);

  // `prober_command` may be empty: then handles of GPU memory are considered good.
  explicit MemorySocketTest(std::vector<std::string> prober_command = {}) {
    auto socket = MemorySocket::Open({.path = path_,
                                      .users = {},
                                      .max_registered_bytes = kMaxRegisteredBytes,
                                      .idle = kIdle,
                                      .sealer_command = {"/proc/self/exe", kSealFlag},
                                      .sealing = kSealing,
                                      .prober_command = std::move(prober_command),
                                      .probing = kProbing,
                                      .room = kRoom},
                                     backend_, service_.memories);
    EXPECT_TRUE(socket.ok()) << socket.status();
    socket_ = *std::move(socket);
    auto connection = MemoryConnection::Open(path_);
    EXPECT_TRUE(connection.ok()) << connection.status();
    connection_.emplace(*std::move(connection));
  }

  static int Memfd(std::uint64_t bytes, bool allocated, int seals) {
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(allocated ? posix_fallocate(fd, 0, static_cast<off_t>(bytes)) : 0, 0);
    EXPECT_EQ(seals != 0 ? fcntl(fd, F_ADD_SEALS, seals) : 0, 0);
    return fd;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.Path("socket");
  std::unique_ptr<MemorySocket> socket_;
  std::optional<warpfold::MemoryConnection> connection_;
};

}  // namespace warpfold::server
