// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Shared memory: a client on the server's machine registers memory over the Unix socket of --memory_socket,
// and the server reads it directly instead of receiving the array. It can also write results of segments
// there instead of sending them (SegmentCut::results in segments.h).
//
//   const auto server = warpfold::MemoryConnection::Open("/run/warpfold.mem");  // absl::StatusOr
//   const auto memory = server->Allocate(count * sizeof(float));
//
//   // fill memory->data(), then
//
//   client.ReduceReference(spec, warpfold::ElementType::kFloat32, {memory->token(), 0, count});
//
// Threads: all methods may be called from any thread at the same time, and each waits for the server: some 80
// ms for each GiB of host memory on a GPU, or 700 if nobody has written to it. UNAVAILABLE after two minutes
// without a response, and from then on. Of CallOptions, only the timeout, `stop` and `keep_going` apply here,
// as in other calls, even before the request is sent: memory that the server registers after such an end is
// released. A `keep_going` that itself uses the MemoryConnection gets FAILED_PRECONDITION while its
// own request is on its way: other requests wait until this one has its response.
//
// Processes: these objects belong to the process that made them. In a process that was forked from it, all
// methods return FAILED_PRECONDITION, and destructors leave the parent's registrations as they are. A fork
// closes the connection in the new process (with a handler of pthread_atfork), so that the server forgets the
// memory when the process that registered it ends, even while processes that were forked from it live on.
//
// Registrations end with the server process, and a restarted server does not know the old tokens. The next
// registration connects to the new server, even if older registrations still exist. The client can still read
// and write the memory itself.
//
// Moved-from objects may only be destroyed, or assigned to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "client/options.h"

namespace warpfold {

class Registrations;

// What the server may do with memory, for whoever knows its token.
enum class MemoryAccess {
  kRead,
  // It also writes results of segments there. PERMISSION_DENIED (NOT_ALLOWED) unless this process has the
  // user of the server's.
  kReadWrite,
};

// A part of an allocation on a GPU.
struct GpuRange {
  // The 64 bytes of a cudaIpcMemHandle_t, from cudaIpcGetMemHandle of the allocation or of any address in it.
  std::span<const std::byte> handle = {};
  // Names the GPU, as cudaDeviceGetPCIBusId does; if it is empty, a server with several GPUs may read the
  // memory with a different one.
  std::string pci_bus_id = {};
  std::uint64_t byte_offset = 0;  // from the allocation's start
  std::uint64_t byte_count = 0;
};

// Memory that the server knows until this object is destroyed. The server forgets it then, or when the
// process ends; a reduction that has begun is not disturbed. The destructor waits a tenth of a second at
// most: a server that does not respond learns of it with the next registration, or from the end of the
// MemoryConnection and of everything that was registered over it.
class RegisteredMemory {
 public:
  RegisteredMemory(RegisteredMemory&&) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&&) noexcept;
  ~RegisteredMemory();

  // For ArrayReference, and for ResultsReference: 16 random bytes, not text.
  const std::string& token() const;

 private:
  friend class MemoryConnection;
  struct State;
  explicit RegisteredMemory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Host memory of this process that the server maps.
class SharedMemory {
 public:
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Zero at first; aligned to a page. The client may write to it at any time; the value of a reduction that
  // runs meanwhile is then meaningless (ArrayReference in reduction.proto).
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
  // UNAVAILABLE if nobody listens at `path`, or the server closes connections of this user; INVALID_ARGUMENT
  // for a path that cannot be a Unix socket's: of 1 to 107 bytes, none of them zero. The server closes
  // a connection that has had nothing registered for a while, and all of them when it ends; the next
  // registration connects again.
  static absl::StatusOr<MemoryConnection> Open(const std::string& path, const CallOptions& options = {});
  MemoryConnection(MemoryConnection&&) noexcept;
  MemoryConnection& operator=(MemoryConnection&&) noexcept;
  ~MemoryConnection();

  // New memory of this process, at least 1 byte. RESOURCE_EXHAUSTED (TOO_MUCH_MEMORY) if the system does not
  // have that much, RLIMIT_FSIZE is less, or the server allows less.
  absl::StatusOr<SharedMemory> Allocate(std::uint64_t byte_count, MemoryAccess access = MemoryAccess::kRead,
                                        const CallOptions& options = {}) const;

  // The first bytes of a memfd that is sealed against shrinking, and allocated: INVALID_ARGUMENT (BAD_MEMORY)
  // for any other descriptor, and with kReadWrite for a memfd that has been sealed against writes. The server
  // seals the memfd against holes: map it for writing before this call. The descriptor still belongs to the
  // caller, who may close it.
  absl::StatusOr<RegisteredMemory> Register(int memfd, std::uint64_t byte_count,
                                            MemoryAccess access = MemoryAccess::kRead,
                                            const CallOptions& options = {}) const;

  // Memory of one of the server's GPUs. INVALID_ARGUMENT (BAD_MEMORY) unless the GPU knows the handle;
  // UNIMPLEMENTED (UNSUPPORTED_MEMORY) if the server reduces on the CPU.
  //
  // The server knows nothing of this process' streams: what they still do to the memory must have ended
  // before a call for results. After such a call has failed, the memory must not be put to other use until
  // the server no longer writes there: a call that names it is rejected, and tried again, until then.
  absl::StatusOr<RegisteredMemory> RegisterGpu(const GpuRange& range,
                                               MemoryAccess access = MemoryAccess::kRead,
                                               const CallOptions& options = {}) const;

 private:
  explicit MemoryConnection(std::shared_ptr<Registrations> registrations);
  std::shared_ptr<Registrations> registrations_;
};

}  // namespace warpfold
