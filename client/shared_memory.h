// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that the server reads without a wire: for a client on the server's machine, over the socket that its
// flag --memory_socket names.
//
//   const auto server = warpfold::MemoryConnection::Open("/run/warpfold.mem");  // absl::StatusOr
//   const auto memory = server->Allocate(count * sizeof(float));
//
//   // fill memory->data(), then
//
//   client.ReduceReference(spec, warpfold::ElementType::kFloat32, {memory->token(), 0, count});
//
// Threads: all methods may be called from any thread at the same time, and each waits for the server: some 50
// ms for each GiB of host memory on a GPU. UNAVAILABLE after two minutes without an answer, and from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace warpfold {

// Memory that the server knows, until this is destroyed. The server forgets it then, or when the process
// ends; a reduction that has begun is not disturbed.
class RegisteredMemory {
 public:
  RegisteredMemory(RegisteredMemory&&) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&&) noexcept;
  ~RegisteredMemory();

  // For ArrayReference.
  const std::string& token() const;

 private:
  friend class MemoryConnection;
  struct State;
  explicit RegisteredMemory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Host memory of this process that the server maps for reading.
class SharedMemory {
 public:
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Zero at first; aligned to a page. To be written at will, but not while it is reduced.
  std::span<std::byte> data() const { return data_; }
  const std::string& token() const { return registered_.token(); }

 private:
  friend class MemoryConnection;
  SharedMemory(std::span<std::byte> data, RegisteredMemory registered);
  std::span<std::byte> data_;
  RegisteredMemory registered_;
};

class MemoryConnection {
 public:
  // UNAVAILABLE where nobody listens at `path`, or hangs up on this user. The server closes a connection that
  // has had nothing registered for a while; the next registration connects again.
  static absl::StatusOr<MemoryConnection> Open(const std::string& path);
  MemoryConnection(MemoryConnection&&) noexcept;
  MemoryConnection& operator=(MemoryConnection&&) noexcept;
  ~MemoryConnection();

  // New memory of this process. RESOURCE_EXHAUSTED where there is none.
  absl::StatusOr<SharedMemory> Allocate(std::uint64_t byte_count) const;

  // The first bytes of a memfd that is sealed against shrinking, and allocated. The server seals it against
  // holes: map it for writing before. The descriptor stays the caller's, who may close it.
  absl::StatusOr<RegisteredMemory> Register(int memfd, std::uint64_t byte_count) const;

  // A part of an allocation on the server's GPU: `handle` has the 64 bytes of a cudaIpcMemHandle_t, from
  // cudaIpcGetMemHandle of the allocation or of any address in it, and `byte_offset` counts from the
  // allocation's start.
  absl::StatusOr<RegisteredMemory> RegisterGpu(std::span<const std::byte> handle, std::uint64_t byte_offset,
                                               std::uint64_t byte_count) const;

 private:
  class Socket;
  friend struct RegisteredMemory::State;
  explicit MemoryConnection(std::shared_ptr<Socket> socket);
  std::shared_ptr<Socket> socket_;
};

}  // namespace warpfold
