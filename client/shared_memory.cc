// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold {
namespace {

constexpr std::size_t kMaxAnswerBytes = 4096;

absl::Status Broken(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat("the memory socket ", what, ": ", std::strerror(error)));
}

// Sends a message, with a descriptor or without.
bool SendWith(int socket, const std::string& bytes, std::optional<int> descriptor) {
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor.has_value()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &*descriptor, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace

// The connection, which lives as long as anything that was registered over it.
class MemoryConnection::Socket {
 public:
  explicit Socket(std::string path) : path_(std::move(path)) {}
  ~Socket() { Close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // To be called once, before all else.
  absl::Status Connect() {
    const std::lock_guard lock(mutex_);
    return ConnectLocked();
  }

  // Registers something. The server hangs up on who has had nothing registered for a while (memory.proto):
  // then nothing is lost, and a new connection is as good.
  absl::StatusOr<std::string> Register(const v1::MemoryRequest& request, std::optional<int> descriptor) {
    const std::lock_guard lock(mutex_);
    absl::StatusOr<std::string> token = AskLocked(request, descriptor);
    if (registered_ == 0 && hung_up_) {
      Close();
      if (absl::Status status = ConnectLocked(); !status.ok()) return status;
      token = AskLocked(request, descriptor);
    }
    if (token.ok()) ++registered_;
    return token;
  }

  // Where the connection is broken the server has forgotten it.
  void Unregister(const std::string& token) {
    const std::lock_guard lock(mutex_);
    v1::MemoryRequest request;
    request.mutable_unregister()->set_token(token);
    AskLocked(request, std::nullopt).IgnoreError();
    --registered_;
  }

 private:
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  absl::Status ConnectLocked() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof(address.sun_path)) return absl::InvalidArgumentError("the path is too long");
    path_.copy(address.sun_path, path_.size());
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return Broken("cannot be made", errno);
    // Registering takes 50 ms for each GiB; a server that is full of connections answers nothing.
    const timeval longest = {.tv_sec = 120, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return Broken("cannot be connected to", errno);
    }
    broken_ = false;
    hung_up_ = false;
    return absl::OkStatus();
  }

  // One question and its answer: the token, if the answer has one.
  absl::StatusOr<std::string> AskLocked(const v1::MemoryRequest& request, std::optional<int> descriptor) {
    if (broken_) return Broken("has failed before", EPIPE);
    // Answers have no names: after one that was missed, the next would be taken for another question's.
    broken_ = true;
    if (!SendWith(fd_, request.SerializeAsString(), descriptor)) {
      hung_up_ = errno == EPIPE || errno == ECONNRESET;
      return Broken("cannot be written to", errno);
    }
    std::array<char, kMaxAnswerBytes> bytes;
    ssize_t size = 0;
    do {
      size = recv(fd_, bytes.data(), bytes.size(), 0);
    } while (size < 0 && errno == EINTR);
    hung_up_ = size == 0 || (size < 0 && errno == ECONNRESET);
    if (size <= 0) return Broken("gives no answer", size < 0 ? errno : ECONNRESET);
    v1::MemoryResponse response;
    if (!response.ParseFromArray(bytes.data(), static_cast<int>(size))) {
      return absl::InternalError("the server's answer is not readable");
    }
    broken_ = false;
    if (response.code() == 0) return response.token();
    return MakeError(static_cast<absl::StatusCode>(response.code()), response.reason(), response.message());
  }

  const std::string path_;
  std::mutex mutex_;
  int fd_ = -1;           // guarded by mutex_
  bool broken_ = false;   // guarded by mutex_: questions and answers are not in step any more
  bool hung_up_ = false;  // guarded by mutex_: broken, since the server has closed the connection
  int registered_ = 0;    // guarded by mutex_
};

struct RegisteredMemory::State {
  State(std::shared_ptr<MemoryConnection::Socket> socket_in, std::string token_in)
      : socket(std::move(socket_in)), token(std::move(token_in)) {}
  ~State() { socket->Unregister(token); }

  const std::shared_ptr<MemoryConnection::Socket> socket;
  const std::string token;
};

RegisteredMemory::RegisteredMemory(std::unique_ptr<State> state) : state_(std::move(state)) {}
RegisteredMemory::RegisteredMemory(RegisteredMemory&&) noexcept = default;
RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&&) noexcept = default;
RegisteredMemory::~RegisteredMemory() = default;
const std::string& RegisteredMemory::token() const { return state_->token; }

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

MemoryConnection::MemoryConnection(std::shared_ptr<Socket> socket) : socket_(std::move(socket)) {}
MemoryConnection::MemoryConnection(MemoryConnection&&) noexcept = default;
MemoryConnection& MemoryConnection::operator=(MemoryConnection&&) noexcept = default;
MemoryConnection::~MemoryConnection() = default;

absl::StatusOr<MemoryConnection> MemoryConnection::Open(const std::string& path) {
  auto socket = std::make_shared<Socket>(path);
  if (absl::Status status = socket->Connect(); !status.ok()) return status;
  return MemoryConnection(std::move(socket));
}

absl::StatusOr<SharedMemory> MemoryConnection::Allocate(std::uint64_t byte_count) const {
  const int memfd = memfd_create("warpfold", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) return absl::ResourceExhaustedError("the system gives no memfd");
  // Now, rather than when it is written to: where there is no memory that would end the process.
  const int error = byte_count == 0 ? EINVAL : posix_fallocate(memfd, 0, static_cast<off_t>(byte_count));
  void* address = MAP_FAILED;
  if (error == 0 && fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
    address = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  }
  if (address == MAP_FAILED) {
    close(memfd);
    return absl::ResourceExhaustedError(absl::StrCat("the system has no ", byte_count, " bytes to share"));
  }
  absl::StatusOr<RegisteredMemory> registered = Register(memfd, byte_count);
  close(memfd);
  if (!registered.ok()) {
    munmap(address, byte_count);
    return registered.status();
  }
  return SharedMemory({static_cast<std::byte*>(address), byte_count}, *std::move(registered));
}

absl::StatusOr<RegisteredMemory> MemoryConnection::Register(int memfd, std::uint64_t byte_count) const {
  v1::MemoryRequest request;
  request.mutable_register_host()->set_byte_count(byte_count);
  absl::StatusOr<std::string> token = socket_->Register(request, memfd);
  if (!token.ok()) return token.status();
  return RegisteredMemory(std::make_unique<RegisteredMemory::State>(socket_, *std::move(token)));
}

absl::StatusOr<RegisteredMemory> MemoryConnection::RegisterGpu(std::span<const std::byte> handle,
                                                               std::uint64_t byte_offset,
                                                               std::uint64_t byte_count) const {
  v1::MemoryRequest request;
  v1::RegisterGpuMemory& memory = *request.mutable_register_gpu();
  memory.set_handle(handle.data(), handle.size());
  memory.set_byte_offset(byte_offset);
  memory.set_byte_count(byte_count);
  absl::StatusOr<std::string> token = socket_->Register(request, std::nullopt);
  if (!token.ok()) return token.status();
  return RegisteredMemory(std::make_unique<RegisteredMemory::State>(socket_, *std::move(token)));
}

}  // namespace warpfold
