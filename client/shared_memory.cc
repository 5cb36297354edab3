// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/connections/connection.h"
#include "client/connections/patience.h"
#include "client/connections/registrations.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"
#include "proto/shared/system_memory.h"
#include "proto/text.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold {
namespace {

absl::Status NoMemory(std::uint64_t byte_count) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                   absl::StrCat("the system has no ", byte_count, " bytes to share"));
}

// Allocates all of a memfd's memory now, rather than when it is written to: if there were none left then,
// that would end the process. This is done in pieces, since much memory takes seconds, in which a timeout may
// come. They are small, because older kernels give a piece up at each signal: one that takes longer than the
// interval of a program's timer would never end.
absl::Status TakeMemory(int memfd, std::uint64_t byte_count, const Patience& patience) {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{2} << 20;
  absl::Time asked_next = absl::InfinitePast();
  for (std::uint64_t at = 0; at < byte_count;) {
    if (const absl::Time now = SteadyNow(); now >= asked_next) {
      if (absl::Status status = patience.Check(); !status.ok()) return status;
      asked_next = now + kAskedEvery;
    }
    const std::uint64_t size = std::min(kPieceBytes, byte_count - at);
    const int error = posix_fallocate(memfd, static_cast<off_t>(at), static_cast<off_t>(size));
    if (error == 0) {
      at += size;
    } else if (error == EINTR) {
      asked_next = absl::InfinitePast();
    } else {
      return NoMemory(byte_count);
    }
  }
  return absl::OkStatus();
}

absl::Status BadMemory(absl::string_view what) {
  return RefuseCall(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what);
}

// If a server gets a file other than a memfd, it closes the connection, and so forgets everything that was
// registered before. Everything else about the memory is left for the server to check.
absl::Status CheckIsMemfd(int descriptor) {
  if (fcntl(descriptor, F_GET_SEALS) >= 0) return absl::OkStatus();
  return BadMemory(errno == EBADF ? "what is to be registered is no open descriptor"
                                  : "the descriptor is not of a memfd that can be sealed");
}

// Whether files of this process may have so many bytes: a memfd beyond the limit would raise a signal that
// ends the process.
bool MayHave(std::uint64_t byte_count) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || byte_count <= limit.rlim_cur;
}

// More than the name of any PCI device has.
constexpr std::size_t kMaxPciBusIdBytes = 64;
// The size of a cudaIpcMemHandle_t.
constexpr std::size_t kHandleBytes = 64;

}  // namespace

struct RegisteredMemory::State {
  State(std::shared_ptr<Registrations> registrations_in, Registration registration_in)
      : registrations(std::move(registrations_in)), registration(std::move(registration_in)) {}
  ~State() { registrations->Unregister(registration); }

  const std::shared_ptr<Registrations> registrations;
  const Registration registration;
};

RegisteredMemory::RegisteredMemory(std::unique_ptr<State> state) : state_(std::move(state)) {}
RegisteredMemory::RegisteredMemory(RegisteredMemory&&) noexcept = default;
RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&&) noexcept = default;
RegisteredMemory::~RegisteredMemory() = default;
const std::string& RegisteredMemory::token() const { return state_->registration.token; }

SharedMemory::SharedMemory(std::span<std::byte> data, RegisteredMemory registered)
    : data_(data), registered_(std::move(registered)) {}
SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, {})), registered_(std::move(other.registered_)) {}
SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(registered_, other.registered_);
  return *this;
}
SharedMemory::~SharedMemory() {
  if (!data_.empty()) munmap(data_.data(), data_.size());
}

MemoryConnection::MemoryConnection(std::shared_ptr<Registrations> registrations)
    : registrations_(std::move(registrations)) {}
MemoryConnection::MemoryConnection(MemoryConnection&&) noexcept = default;
MemoryConnection& MemoryConnection::operator=(MemoryConnection&&) noexcept = default;
MemoryConnection::~MemoryConnection() = default;

absl::StatusOr<MemoryConnection> MemoryConnection::Open(const std::string& path, const CallOptions& options) {
  auto registrations = std::make_shared<Registrations>(path);
  if (absl::Status status = registrations->Connect(options); !status.ok()) return status;
  return MemoryConnection(std::move(registrations));
}

absl::StatusOr<SharedMemory> MemoryConnection::Allocate(std::uint64_t byte_count, MemoryAccess access,
                                                        const CallOptions& options) const {
  const absl::Time deadline = SteadyNow() + options.timeout;
  if (byte_count == 0) return BadMemory("byte_count must be at least 1");
  if (absl::Status status = registrations_->CheckProcess(); !status.ok()) return status;
  if (!MayHave(byte_count)) {
    return MakeError(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                     absl::StrCat("this process may have no file of ", byte_count, " bytes (RLIMIT_FSIZE)"));
  }
  if (byte_count > AvailableMemory()) return NoMemory(byte_count);
  const int memfd = memfd_create("warpfold", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) return absl::ResourceExhaustedError("the system gives no memfd");
  const absl::Cleanup closes = [memfd] { close(memfd); };
  const absl::Status taken = TakeMemory(memfd, byte_count, Patience(options));
  // keep_going may have forked, and both processes come here, with the same memfd.
  if (absl::Status status = registrations_->CheckProcess(); !status.ok()) return status;
  if (!taken.ok()) return taken;
  if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) return NoMemory(byte_count);
  void* const address = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (address == MAP_FAILED) return NoMemory(byte_count);
  // This also happens if keep_going throws.
  absl::Cleanup unmaps = [address, byte_count] { munmap(address, byte_count); };
  CallOptions rest = options;
  rest.timeout = deadline - SteadyNow();
  absl::StatusOr<RegisteredMemory> registered = Register(memfd, byte_count, access, rest);
  if (!registered.ok()) return registered.status();
  std::move(unmaps).Cancel();
  return SharedMemory({static_cast<std::byte*>(address), byte_count}, *std::move(registered));
}

absl::StatusOr<RegisteredMemory> MemoryConnection::Register(int memfd, std::uint64_t byte_count,
                                                            MemoryAccess access,
                                                            const CallOptions& options) const {
  if (absl::Status status = CheckIsMemfd(memfd); !status.ok()) return status;
  v1::MemoryRequest request;
  request.mutable_register_host()->set_byte_count(byte_count);
  request.mutable_register_host()->set_writable(access == MemoryAccess::kReadWrite);
  absl::StatusOr<Registration> registration = registrations_->Register(request, memfd, options);
  if (!registration.ok()) return registration.status();
  return RegisteredMemory(
      std::make_unique<RegisteredMemory::State>(registrations_, *std::move(registration)));
}

absl::StatusOr<RegisteredMemory> MemoryConnection::RegisterGpu(const GpuRange& range, MemoryAccess access,
                                                               const CallOptions& options) const {
  if (range.handle.size() != kHandleBytes) {
    return BadMemory(absl::StrCat("a handle has ", kHandleBytes, " bytes"));
  }
  // The server could not read a message with text that is not UTF-8, and would close the connection.
  if (!IsText(range.pci_bus_id, kMaxPciBusIdBytes)) {
    return BadMemory(
        absl::StrCat("pci_bus_id must be at most ", kMaxPciBusIdBytes, " printable ASCII characters"));
  }
  v1::MemoryRequest request;
  v1::RegisterGpuMemory& memory = *request.mutable_register_gpu();
  memory.set_handle(range.handle.data(), range.handle.size());
  memory.set_pci_bus_id(range.pci_bus_id);
  memory.set_byte_offset(range.byte_offset);
  memory.set_byte_count(range.byte_count);
  memory.set_writable(access == MemoryAccess::kReadWrite);
  absl::StatusOr<Registration> registration = registrations_->Register(request, std::nullopt, options);
  if (!registration.ok()) return registration.status();
  return RegisteredMemory(
      std::make_unique<RegisteredMemory::State>(registrations_, *std::move(registration)));
}

}  // namespace warpfold
