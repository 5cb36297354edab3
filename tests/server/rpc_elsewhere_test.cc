// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that need no wire, over gRPC: kept ones, and registered memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <vector>

#include "client/shared_memory.h"
#include "server/memory/memory_socket.h"
#include "tests/server/rpc_fixture.h"
#include "warpfold/v1/arrays.grpc.pb.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kPoolBytes = std::uint64_t{1} << 20;

v1::PutArrayRequest PutHeader(std::uint64_t count, v1::ElementType type = v1::ELEMENT_TYPE_INT32) {
  v1::PutArrayRequest request;
  request.mutable_header()->set_element_type(type);
  request.mutable_header()->set_element_count(count);
  request.mutable_header()->set_owner("tests");
  return request;
}

std::vector<std::int32_t> Iota(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::int64_t SumOfIota(std::int64_t first, std::int64_t count) {
  return first * count + count * (count - 1) / 2;
}

class ElsewhereTest : public RpcTest {
 protected:
  ElsewhereTest() {
    service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  }

  // An array of int32, cut into chunks of 30,001 bytes.
  grpc::Status Put(const std::vector<std::int32_t>& values, std::uint64_t announced) {
    return Put(values, PutHeader(announced));
  }
  grpc::Status Put(const std::vector<std::int32_t>& values, const v1::PutArrayRequest& header) {
    grpc::ClientContext context;
    put_.Clear();
    const auto writer = arrays_->PutArray(&context, &put_);
    writer->Write(header);
    const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    for (std::size_t begin = 0; begin < bytes.size(); begin += 30'001) {
      v1::PutArrayRequest request;
      request.mutable_chunk()->set_data(bytes.substr(begin, 30'001));
      if (!writer->Write(request)) break;
    }
    v1::PutArrayRequest request;
    request.mutable_commit()->set_element_count(values.size());
    request.mutable_commit()->set_byte_count(bytes.size());
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::Status Delete(const std::string& token) {
    grpc::ClientContext context;
    v1::DeleteArrayRequest request;
    request.set_token(token);
    v1::DeleteArrayResponse response;
    return arrays_->DeleteArray(&context, request, &response);
  }

  // Nothing where there is none.
  v1::ResidentArray Get(const std::string& token) {
    grpc::ClientContext context;
    v1::GetArrayRequest request;
    request.set_token(token);
    v1::GetArrayResponse response;
    const grpc::Status status = arrays_->GetArray(&context, request, &response);
    EXPECT_EQ(Reason(status), status.ok() ? "" : "UNKNOWN_MEMORY");
    return response.array();
  }

  v1::ListArraysResponse List() {
    grpc::ClientContext context;
    v1::ListArraysResponse response;
    EXPECT_TRUE(arrays_->ListArrays(&context, {}, &response).ok());
    return response;
  }

  static v1::ReduceRequest At(const std::string& token, std::uint64_t byte_offset, std::uint64_t count,
                              v1::ElementType type = v1::ELEMENT_TYPE_INT32) {
    v1::ReduceRequest request = Header({v1::OPERATOR_SUM}, type);
    v1::ArrayReference& reference = *request.mutable_header()->mutable_reference();
    reference.set_token(token);
    reference.set_byte_offset(byte_offset);
    reference.set_element_count(count);
    return request;
  }

  std::int64_t Value() const { return response_.reduction().results(0).int64_value(); }

  const std::unique_ptr<v1::ArrayService::Stub> arrays_ = v1::ArrayService::NewStub(channel_);
  v1::PutArrayResponse put_;
};

TEST_F(ElsewhereTest, AnArrayThatWasPutIsReducedInParts) {
  ASSERT_TRUE(Put(Iota(100'000), 100'000).ok());
  EXPECT_EQ(put_.token().size(), kTokenBytes);
  EXPECT_EQ(put_.array().byte_count(), 400'000u);
  for (const auto& [first, count] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 100'000}, {1, 99'999}, {777, 1}, {5, 0}}) {
    const grpc::Status status = Reduce({At(put_.token(), 4 * first, count)});
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(Value(), SumOfIota(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)));
    EXPECT_EQ(response_.reduction().element_count(), count);
  }
  ASSERT_EQ(List().arrays_size(), 1);
  EXPECT_EQ(Get(put_.token()).element_count(), 100'000u);
  EXPECT_EQ(Get(put_.token()).element_type(), v1::ELEMENT_TYPE_INT32);
  EXPECT_EQ(Get("nothing").element_count(), 0u);
  EXPECT_EQ(List().arrays(0).owner(), "tests");
  EXPECT_EQ(List().capacity_bytes(), kPoolBytes);
  EXPECT_TRUE(Delete(put_.token()).ok());
  EXPECT_EQ(List().free_bytes(), kPoolBytes);
  EXPECT_EQ(Reason(Reduce({At(put_.token(), 0, 1)})), "UNKNOWN_MEMORY");
  EXPECT_EQ(Reason(Delete(put_.token())), "UNKNOWN_MEMORY");
  ExpectUnharmed();
}

TEST_F(ElsewhereTest, AnArrayThatDoesNotMatchItsHeaderIsNotKept) {
  EXPECT_EQ(Reason(Put(Iota(1000), 999)), "COUNT_MISMATCH");
  EXPECT_EQ(Reason(Put(Iota(1000), 1001)), "COUNT_MISMATCH");
  EXPECT_EQ(Reason(Put(Iota(1000), kPoolBytes / 4 + 1)), "OWNER_QUOTA");
  EXPECT_EQ(List().arrays_size(), 0);
  Await([&] { return List().free_bytes() == kPoolBytes; });
  ExpectUnharmed();
}

TEST_F(ElsewhereTest, PutsThatBreakAreForgotten) {
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const auto writer = arrays_->PutArray(&context, &put_);
    writer->Write(PutHeader(kPoolBytes / 4));
    v1::PutArrayRequest chunk;
    chunk.mutable_chunk()->set_data(std::string(100'000, 'x'));
    writer->Write(chunk);
    context.TryCancel();
    writer->Finish();
  }
  Await([&] { return List().free_bytes() == kPoolBytes; });
  ExpectUnharmed();
}

// Each is refused by name, and nothing stays.
TEST_F(ElsewhereTest, BadReferences) {
  ASSERT_TRUE(Put(Iota(1000), 1000).ok());
  const std::string token = put_.token();
  const auto reason_of = [&](const v1::ReduceRequest& request) { return Reason(Reduce({request})); };
  EXPECT_EQ(reason_of(At("", 0, 1)), "UNKNOWN_MEMORY");
  EXPECT_EQ(reason_of(At(std::string(16, 'x'), 0, 1)), "UNKNOWN_MEMORY");
  EXPECT_EQ(reason_of(At(token, 0, 1001)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 4, 1000)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 4001, 0)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 2, 1)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, ~std::uint64_t{0} - 3, 2)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 0, ~std::uint64_t{0} / 4 + 2)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 0, 1, v1::ELEMENT_TYPE_FLOAT32)), "BAD_HEADER");
  v1::ReduceRequest checksummed = At(token, 0, 1);
  checksummed.mutable_header()->set_with_crc32c(true);
  EXPECT_EQ(reason_of(checksummed), "BAD_HEADER");
  v1::ReduceRequest counted = At(token, 0, 1);
  counted.mutable_header()->set_expected_element_count(1);
  EXPECT_EQ(reason_of(counted), "BAD_HEADER");
  EXPECT_EQ(Reason(Reduce({At(token, 0, 1000), Chunk(Iota(1))})), "BAD_ORDER");
  EXPECT_EQ(Reason(Reduce({At(token, 0, 1000), Commit(1000, 4000)})), "BAD_ORDER");
  EXPECT_EQ(Reason(Reduce({At(token, 0, 1000), At(token, 0, 1000)})), "BAD_ORDER");
  ExpectUnharmed();
}

// The device reads it until it is done, whatever becomes of the call and of the array.
TEST_F(ElsewhereTest, DeletedWhileItIsRead) {
  ASSERT_TRUE(Put(Iota(100'000), 100'000).ok());
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(At(put_.token(), 0, 100'000));
  writer->WritesDone();
  Await([&] { return backend_.behaviour.working() > 0; });
  EXPECT_TRUE(Delete(put_.token()).ok());
  EXPECT_LT(List().free_bytes(), kPoolBytes) << "freed under a reader";
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
  Await([&] { return server_->reductions_in_progress() == 0; });
  EXPECT_LT(List().free_bytes(), kPoolBytes) << "freed under the device";
  backend_.behaviour.SetBlocked(false);
  Await([&] { return List().free_bytes() == kPoolBytes; });
  ExpectUnharmed();
}

// Nothing but the device happens: the shard has to find out by itself, looking at first and then told.
TEST_F(ElsewhereTest, TheEndOfTheDevicesWorkIsNoticedSoonAndLate) {
  ASSERT_TRUE(Put(Iota(10'000), 10'000).ok());
  for (const int wait_ms : {0, 1, 20}) {
    backend_.behaviour.SetBlocked(true);
    std::thread device([&] {
      Await([&] { return backend_.behaviour.working() > 0; });
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      backend_.behaviour.SetBlocked(false);
    });
    EXPECT_TRUE(Reduce({At(put_.token(), 0, 10'000)}).ok());
    EXPECT_EQ(Value(), SumOfIota(0, 10'000));
    device.join();
  }
  // Told of where it took longer than one looks; the 20 ms do, at least.
  EXPECT_GE(backend_.behaviour.notices, 1);
  EXPECT_LT(backend_.behaviour.notices, backend_.behaviour.starts);
}

TEST_F(ElsewhereTest, ArraysExpireByThemselves) {
  ASSERT_TRUE(Put(Iota(1000), 1000).ok());
  AdvanceClock(3600);
  // Any call makes the shard look at the clock.
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  Await([&] { return List().arrays_size() == 0; });
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
}

// It is used from the header to the end of the reduction, however short its time to live is.
TEST_F(ElsewhereTest, AnArrayThatIsReadDoesNotExpire) {
  constexpr int kSeconds = 2;
  v1::PutArrayRequest header = PutHeader(1000);
  header.mutable_header()->set_time_to_live_seconds(kSeconds);
  ASSERT_TRUE(Put(Iota(1000), header).ok());
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(At(put_.token(), 0, 1000));
  writer->WritesDone();
  Await([&] { return backend_.behaviour.working() > 0; });
  AdvanceClock(2 * kSeconds);
  EXPECT_EQ(Get(put_.token()).expires_in_seconds(), kSeconds);
  backend_.behaviour.SetBlocked(false);
  ASSERT_TRUE(writer->Finish().ok());
  Await([&] { return server_->reductions_in_progress() == 0; });
  AdvanceClock(kSeconds - 1);
  EXPECT_EQ(Get(put_.token()).expires_in_seconds(), 1);
  AdvanceClock(1);
  EXPECT_EQ(Reason(Reduce({At(put_.token(), 0, 1000)})), "UNKNOWN_MEMORY");
}

// A socket of the test's own, and a client on it.
class MemorySocketTest : public ElsewhereTest {
 protected:
  static constexpr std::uint64_t kMaxRegisteredBytes = std::uint64_t{1} << 20;

  MemorySocketTest() {
    auto socket =
        MemorySocket::Open({.path = path_, .users = {}, .max_registered_bytes = kMaxRegisteredBytes},
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

  const std::string path_ = testing::TempDir() + "mem" + std::to_string(getpid());
  std::unique_ptr<MemorySocket> socket_;
  std::optional<warpfold::MemoryConnection> connection_;
};

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
  // As a process that ends: everything goes at once.
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

// Whoever gives the server memory must not be able to make it read what is not there.
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
  // Its second half is allocated, its first not.
  const int half = Memfd(1 << 20, false, 0);
  EXPECT_EQ(posix_fallocate(half, 1 << 19, 1 << 19), 0);
  EXPECT_EQ(fcntl(half, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THAT(refusal(half, 1 << 19), testing::HasSubstr("allocated"));
  const int large = Memfd(2 * kMaxRegisteredBytes, true, F_SEAL_SHRINK);
  EXPECT_THAT(refusal(large, 2 * kMaxRegisteredBytes), testing::HasSubstr("max_registered_bytes"));
  EXPECT_THAT(std::string(connection_->RegisterGpu({}, 0, 1).status().message()),
              testing::HasSubstr("handle"));
  // What was refused has left nothing.
  auto memory = connection_->Allocate(kMaxRegisteredBytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
}

// What reading a hole takes is accounted to the server, which is killed where it may not have it.
// Both limits, on the registrations of a connection and on those of all.
TEST_F(MemorySocketTest, RegistrationsAreLimitedInNumber) {
  constexpr std::size_t kMostOfAll = 4096;
  const int fd = Memfd(1, true, F_SEAL_SHRINK);
  std::vector<MemoryConnection> connections;
  std::vector<RegisteredMemory> registrations;
  const auto add = [&](const MemoryConnection& connection) {
    auto registered = connection.Register(fd, 1);
    if (registered.ok()) registrations.push_back(*std::move(registered));
    return std::string(registered.status().message());
  };
  while (registrations.size() < kMostOfAll) {
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

TEST_F(MemorySocketTest, BytesUpToTheLimit) {
  for (const int beyond : {-1, 0, 1}) {
    const auto memory = connection_->Allocate(kMaxRegisteredBytes + beyond);
    EXPECT_EQ(memory.ok(), beyond <= 0) << memory.status();
  }
}

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
  auto registered = connection_->RegisterGpu(handle, 0, 4096);
  ASSERT_TRUE(registered.ok()) << registered.status();
  ASSERT_TRUE(Reduce({At(registered->token(), 0, 1024)}).ok());
  EXPECT_EQ(Value(), 0);
}

TEST_F(MemorySocketTest, APathInUseIsRefusedAndAStaleOneReplaced) {
  const auto open = [&] {
    return MemorySocket::Open({.path = path_, .users = {}, .max_registered_bytes = 1}, backend_,
                              service_.memories)
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
