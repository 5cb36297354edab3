// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that clients register at the server's socket, and reductions of it over gRPC.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "client/error.h"
#include "client/shared_memory.h"
#include "server/memory/memory_socket.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/memory_socket_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(MemorySocketTest, SharedMemoryIsReducedWhereItLies) {
  auto memory = connection_->Allocate(400'004);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const std::vector<std::int32_t> values = Iota(100'000);
  // Any alignment.
  std::memcpy(memory->data().data() + 3, values.data(), 400'000);
  ASSERT_TRUE(Reduce({At(memory->token(), 3, 100'000)}).ok());
  EXPECT_EQ(Value(), SumOfIota(0, 100'000));
  ASSERT_TRUE(Reduce({At(memory->token(), 7, 99'999)}).ok());
  EXPECT_EQ(Value(), SumOfIota(1, 99'999));
  EXPECT_EQ(Reason(Reduce({At(memory->token(), 5, 100'000)})), "BAD_HEADER");
  ExpectUnharmed();
}

TEST_F(MemorySocketTest, RegistrationEndsWithItsObjectAndWithItsConnection) {
  std::string first;
  {
    auto memory = connection_->Allocate(4096);
    ASSERT_TRUE(memory.ok());
    first = memory->token();
    EXPECT_TRUE(Reduce({At(first, 0, 10)}).ok());
  }
  EXPECT_EQ(Reason(Reduce({At(first, 0, 10)})), "UNKNOWN_MEMORY");
  // As with a process that ends: everything goes at once.
  const int fd = Memfd(4096, true, F_SEAL_SHRINK);
  auto registered = connection_->Register(fd, 4096);
  ASSERT_TRUE(registered.ok()) << registered.status();
  const std::string second = registered->token();
  EXPECT_TRUE(Reduce({At(second, 0, 10)}).ok());
  connection_.reset();
  { const auto gone = *std::move(registered); }
  Await([&] { return Reason(Reduce({At(second, 0, 10)})) == "UNKNOWN_MEMORY"; });
  close(fd);
}

// A process that has registered memory, and one that was forked from it and lives on.
TEST_F(MemorySocketTest, RegistrationEndsWithItsProcessAlsoIfOneThatItForkedLivesOn) {
  std::array<int, 2> tokens;
  std::array<int, 2> life;  // both live until the test closes its end, or are killed
  ASSERT_EQ(pipe2(tokens.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(life.data(), O_CLOEXEC), 0);
  const pid_t owner = fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    close(life[1]);
    const auto connection = MemoryConnection::Open(path_);
    const auto memory = connection->Allocate(4096);
    const pid_t forked = fork();
    if (forked < 0 || (forked > 0 && write(tokens[1], memory->token().data(), 16) != 16)) std::_Exit(1);
    close(tokens[1]);
    char byte = 0;
    std::_Exit(static_cast<int>(read(life[0], &byte, 1)));
  }
  close(tokens[1]);
  std::string token(16, 0);
  ASSERT_EQ(read(tokens[0], token.data(), token.size()), 16);
  EXPECT_TRUE(Reduce({At(token, 0, 10)}).ok()) << "a fork took the connection from the process that made it";
  kill(owner, SIGKILL);
  ASSERT_EQ(waitpid(owner, nullptr, 0), owner);
  Await([&] { return Reason(Reduce({At(token, 0, 10)})) == "UNKNOWN_MEMORY"; });
  for (const int end : {tokens[0], life[0], life[1]}) close(end);
}

TEST_F(MemorySocketTest, AConnectionWithNothingRegisteredIsClosedAndTheClientConnectsAgain) {
  const int silent = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  path_.copy(address.sun_path, path_.size());
  ASSERT_EQ(connect(silent, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  char byte = 0;
  EXPECT_EQ(recv(silent, &byte, 1, 0), 0) << "it waits for the end";
  close(silent);
  // The other connection has been silent for as long.
  std::optional<SharedMemory> memory = *connection_->Allocate(4096);
  absl::SleepFor(3 * kIdle);
  EXPECT_TRUE(Reduce({At(memory->token(), 0, 10)}).ok()) << "closed although something is registered";
  memory.reset();
  absl::SleepFor(3 * kIdle);
  EXPECT_TRUE(connection_->Allocate(4096).ok());
}

// A client that gives memory to the server must not be able to make it read what is not there.
// The server counts a connection until it has closed it, which the client does not wait for.
TEST_F(MemorySocketTest, TheLastConnectionOfAUserCanBeMadeAgainAsSoonAsItHasEnded) {
  connection_.reset();
  std::vector<SharedMemory> held;
  while (held.size() < MemorySocket::kMaxOfOneUser - 1) {
    held.push_back(*MemoryConnection::Open(path_)->Allocate(4096));
  }
  for (int i = 0; i < 300; ++i) {
    const auto memory = MemoryConnection::Open(path_)->Allocate(4096);
    ASSERT_TRUE(memory.ok()) << i << ": " << memory.status();
  }
  held.push_back(*MemoryConnection::Open(path_)->Allocate(4096));
  const absl::Status status = MemoryConnection::Open(path_)->Allocate(4096).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("128 connections of one user"));
}

TEST_F(MemorySocketTest, UnsafeMemoryIsRefusedByName) {
  const auto refusal = [&](int fd, std::uint64_t bytes) {
    const absl::Status status = connection_->Register(fd, bytes).status();
    close(fd);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Memfd(4096, true, 0), 4096), testing::HasSubstr("not sealed"));
  EXPECT_THAT(refusal(Memfd(4096, true, F_SEAL_GROW), 4096), testing::HasSubstr("not sealed"));
  EXPECT_THAT(refusal(Memfd(1 << 20, false, F_SEAL_SHRINK), 1 << 20), testing::HasSubstr("allocated"));
  EXPECT_THAT(refusal(Memfd(4096, true, F_SEAL_SHRINK), 4097), testing::HasSubstr("byte_count"));
  EXPECT_THAT(refusal(Memfd(4096, true, F_SEAL_SHRINK), 0), testing::HasSubstr("byte_count"));
  EXPECT_THAT(refusal(open("/dev/zero", O_RDONLY), 4096), testing::HasSubstr("memfd"));
  EXPECT_THAT(refusal(open("/proc/self/exe", O_RDONLY), 4096), testing::HasSubstr("memfd"));
  // Its second half is allocated, its first is not.
  const int half = Memfd(1 << 20, false, 0);
  EXPECT_EQ(posix_fallocate(half, 1 << 19, 1 << 19), 0);
  EXPECT_EQ(fcntl(half, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THAT(refusal(half, 1 << 19), testing::HasSubstr("allocated"));
  const int large = Memfd(2 * kMaxRegisteredBytes, true, F_SEAL_SHRINK);
  EXPECT_THAT(refusal(large, 2 * kMaxRegisteredBytes), testing::HasSubstr("max_registered_bytes"));
  EXPECT_THAT(std::string(connection_->RegisterGpu({.byte_count = 1}).status().message()),
              testing::HasSubstr("handle"));
  const std::vector<std::byte> handle(64);
  const GpuRange long_id = {.handle = handle, .pci_bus_id = std::string(32, '0'), .byte_count = 1};
  EXPECT_THAT(std::string(connection_->RegisterGpu(long_id).status().message()),
              testing::HasSubstr("pci_bus_id"));
  // The rejected registrations have left nothing behind.
  auto memory = connection_->Allocate(kMaxRegisteredBytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
}

// The server hangs up on a client that sends it a descriptor that is not a memfd, and then forgets everything
// that the client registered.
TEST_F(MemorySocketTest, AWrongArgumentLosesNoOtherMemory) {
  const auto memory = connection_->Allocate(4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const int fd = open("/dev/zero", O_RDONLY);
  EXPECT_TRUE(absl::IsInvalidArgument(connection_->Register(fd, 4096).status()));
  close(fd);
  const std::vector<std::byte> long_handle(1 << 20);
  EXPECT_TRUE(
      absl::IsInvalidArgument(connection_->RegisterGpu({.handle = long_handle, .byte_count = 1}).status()));
  EXPECT_TRUE(connection_->Allocate(4096).ok());
  EXPECT_TRUE(Reduce({At(memory->token(), 0, 10)}).ok());
}

// Both limits, on the registrations of one connection and on those of all.
TEST_F(MemorySocketTest, RegistrationsAreLimitedInNumber) {
  constexpr std::size_t kMaxOfAll = 4096;
  const int fd = Memfd(1, true, F_SEAL_SHRINK);
  std::vector<MemoryConnection> connections;
  std::vector<RegisteredMemory> registrations;
  const auto add = [&](const MemoryConnection& connection) {
    auto registered = connection.Register(fd, 1);
    if (registered.ok()) registrations.push_back(*std::move(registered));
    return std::string(registered.status().message());
  };
  while (registrations.size() < kMaxOfAll) {
    auto connection = MemoryConnection::Open(path_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    for (std::size_t i = 0; i < kMaxRegistrations; ++i) ASSERT_EQ(add(*connection), "");
    EXPECT_THAT(add(*connection), testing::HasSubstr("a connection has at most 1024 registrations"));
    connections.push_back(*std::move(connection));
  }
  EXPECT_THAT(add(*connection_), testing::HasSubstr("there are 4096 registrations already"));
  registrations.pop_back();
  EXPECT_EQ(add(*connection_), "");
  close(fd);
}

// The kernel would take pages until none are left, and then end processes.
TEST_F(MemorySocketTest, MoreThanTheMachineHasIsNotTaken) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 50, ~std::uint64_t{0} >> 1, ~std::uint64_t{0}}) {
    const absl::Status status = connection_->Allocate(bytes).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << bytes;
    EXPECT_EQ(GetErrorInfo(status)->reason, "TOO_MUCH_MEMORY");
  }
}

TEST_F(MemorySocketTest, BytesUpToTheLimit) {
  for (const int beyond : {-1, 0, 1}) {
    const auto memory = connection_->Allocate(kMaxRegisteredBytes + beyond);
    EXPECT_EQ(memory.ok(), beyond <= 0) << memory.status();
  }
}

// The memory that reading a hole takes is charged to the server, which is killed if it may not have it.
TEST_F(MemorySocketTest, MemoryHasNoHoles) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 19;
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const int fd = Memfd(kBytes, true, F_SEAL_SHRINK);
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(fallocate(fd, kPunch, 0, 4096), 0) << "the system punches no holes, which the test is about";
  std::memset(mapped, 1, kBytes);
  const auto registered = connection_->Register(fd, kBytes);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(fallocate(fd, kPunch, 0, 4096), -1);
  EXPECT_EQ(madvise(mapped, 4096, MADV_REMOVE), -1);
  std::memset(mapped, 2, 4096);
  ASSERT_TRUE(Reduce({At(registered->token(), 0, kBytes, v1::ELEMENT_TYPE_UINT8)}).ok());
  EXPECT_EQ(response_.reduction().results(0).uint64_value(), kBytes + 4096);
  munmap(mapped, kBytes);
  close(fd);
}

TEST_F(MemorySocketTest, BytesBeyondTheEndDoNotMakeUpForHoles) {
  constexpr off_t kBytes = 1 << 19;
  const int fd = Memfd(kBytes, false, F_SEAL_SHRINK);
  EXPECT_EQ(fallocate(fd, FALLOC_FL_KEEP_SIZE, kBytes, kBytes), 0);
  EXPECT_THAT(std::string(connection_->Register(fd, kBytes).status().message()),
              testing::HasSubstr("allocated"));
  close(fd);
}

// Otherwise bytes that come there while the server counts would make up for holes.
TEST_F(MemorySocketTest, NothingIsAllocatedBeyondTheEndOfWhatIsRegistered) {
  constexpr off_t kBytes = 1 << 19;
  const int fd = Memfd(kBytes, true, F_SEAL_SHRINK);
  EXPECT_TRUE(connection_->Register(fd, kBytes).ok());
  EXPECT_EQ(fallocate(fd, FALLOC_FL_KEEP_SIZE, kBytes, 4096), -1);
  const int closed = Memfd(kBytes, true, F_SEAL_SHRINK | F_SEAL_SEAL);
  EXPECT_THAT(std::string(connection_->Register(closed, kBytes).status().message()),
              testing::HasSubstr("F_SEAL_SEAL without"));
  close(closed);
  close(fd);
}

TEST_F(MemorySocketTest, ADescriptorForReadingCannotBeSealed) {
  const int fd = Memfd(4096, true, F_SEAL_SHRINK);
  const int reading = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY);
  EXPECT_THAT(std::string(connection_->Register(reading, 4096).status().message()),
              testing::HasSubstr("open for writing"));
  close(reading);
  close(fd);
}

TEST_F(MemorySocketTest, MemoryThatIsReadWhenItIsGivenBackStaysUntilThen) {
  std::optional<SharedMemory> memory = *connection_->Allocate(kMaxRegisteredBytes);
  std::memset(memory->data().data(), 1, memory->data().size());
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(At(memory->token(), 0, 100'000, v1::ELEMENT_TYPE_UINT8));
  writer->WritesDone();
  Await([&] { return backend_.behaviour.working() > 0; });
  memory.reset();
  EXPECT_FALSE(connection_->Allocate(kMaxRegisteredBytes).ok()) << "its bytes are still held";
  backend_.behaviour.SetBlocked(false);
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(response_.reduction().results(0).uint64_value(), 100'000u);
  Await([&] { return connection_->Allocate(kMaxRegisteredBytes).ok(); });
}

TEST_F(MemorySocketTest, GpuMemoryIsReducedAsAnyOther) {
  const std::vector<std::byte> handle(64);
  auto registered =
      connection_->RegisterGpu({.handle = handle, .pci_bus_id = "0000:0f:00.0", .byte_count = 4096});
  ASSERT_TRUE(registered.ok()) << registered.status();
  ASSERT_TRUE(Reduce({At(registered->token(), 0, 1024)}).ok());
  EXPECT_EQ(Value(), 0);
}

TEST_F(MemorySocketTest, APathInUseIsRefusedAndAStaleOneReplaced) {
  const auto open = [&] {
    return MemorySocket::Open({.path = path_, .users = {}, .max_registered_bytes = 1, .sealer_command = {}},
                              backend_, service_.memories)
        .status();
  };
  EXPECT_TRUE(absl::IsUnavailable(open()));
  connection_.reset();
  socket_.reset();
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the file stays behind";
  const int file = ::open(path_.c_str(), O_CREAT | O_WRONLY, 0600);
  close(file);
  EXPECT_THAT(std::string(open().message()), testing::HasSubstr("not a socket"));
  unlink(path_.c_str());
  EXPECT_TRUE(open().ok());
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) { return warpfold::server::SealOrTest(argc, argv); }
