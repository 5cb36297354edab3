// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that clients register for results: which memfds, and how calls share it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/error.h"
#include "client/shared_memory.h"
#include "server/core/references/results_memory.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/memory_socket_fixture.h"

namespace warpfold::server {
namespace {

class WritableMemoryTest : public MemorySocketTest {
 protected:
  std::shared_ptr<const NamedMemory> Named(const SharedMemory& memory) const {
    return *service_.memories.Find(memory.token(), absl::Now());
  }

  const std::vector<std::int32_t> values_ = Iota(10);
  Client client_{server_->addresses()[0]};
};

TEST_F(WritableMemoryTest, MemfdsForResults) {
  constexpr int kShrink = F_SEAL_SHRINK;
  const int good = Memfd(8192, true, kShrink);
  const auto registered = connection_->Register(good, 8192, MemoryAccess::kReadWrite);
  ASSERT_TRUE(registered.ok()) << registered.status();
  // Nobody else can map it for writing now, nor make holes into it.
  EXPECT_EQ(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, good, 0), MAP_FAILED);
  EXPECT_NE(fallocate(good, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  const auto array = client_.Put(values_);
  ASSERT_TRUE(array.ok());
  const auto summary =
      client_.ReduceSegmentsReference({.operators = {"max"}}, ElementType::kInt32, array->part(0, 10),
                                      {.length = 1, .results = ResultsReference{registered->token(), 4096}},
                                      [](const warpfold::SegmentResults&) {});
  ASSERT_TRUE(summary.ok()) << summary.status();
  std::vector<std::int64_t> read(10);
  ASSERT_EQ(pread(good, read.data(), 80, 4096), 80);
  EXPECT_TRUE(std::ranges::equal(read, std::span(values_).first(10)));
  close(good);
  // It was sealed against writes before; its bytes are not there; it cannot be sealed.
  for (const int seals : {kShrink | F_SEAL_WRITE, kShrink | F_SEAL_FUTURE_WRITE}) {
    const int sealed = Memfd(8192, true, seals);
    const absl::Status status = connection_->Register(sealed, 8192, MemoryAccess::kReadWrite).status();
    EXPECT_EQ(GetErrorInfo(status)->reason, "BAD_MEMORY");
    EXPECT_THAT(status.message(), testing::HasSubstr("for writing"));
    EXPECT_TRUE(connection_->Register(sealed, 8192).ok()) << "it can be read";
    close(sealed);
  }
  const int writable = Memfd(8192, true, kShrink);
  const int readable = open(absl::StrCat("/proc/self/fd/", writable).c_str(), O_RDONLY);
  ASSERT_GE(readable, 0);
  EXPECT_THAT(connection_->Register(readable, 8192, MemoryAccess::kReadWrite).status().message(),
              testing::HasSubstr("it must be open for writing"));
  close(readable);
  close(writable);
  const int sparse = Memfd(8192, false, kShrink);
  EXPECT_EQ(GetErrorInfo(connection_->Register(sparse, 8192, MemoryAccess::kReadWrite).status())->reason,
            "BAD_MEMORY");
  close(sparse);
  const int hanging = Memfd(kHangs, true, kShrink);
  EXPECT_EQ(GetErrorInfo(connection_->Register(hanging, kHangs, MemoryAccess::kReadWrite).status())->reason,
            "BAD_MEMORY");
  close(hanging);
  EXPECT_TRUE(connection_->Allocate(4096, MemoryAccess::kReadWrite).ok());
}

// Without the memory socket's answer, the mapping goes with the client.
TEST_F(WritableMemoryTest, AClientThatLeavesWhileItsMemoryIsSealed) {
  const int hanging = Memfd(kHangs, true, F_SEAL_SHRINK);
  const auto other = MemoryConnection::Open(path_);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      other->Register(hanging, kHangs, MemoryAccess::kReadWrite, {.timeout = absl::Milliseconds(50)})
          .status()));
  close(hanging);
  EXPECT_TRUE(connection_->Allocate(4096, MemoryAccess::kReadWrite).ok());
}

// A place is reserved for a call, and other places are not.
TEST_F(WritableMemoryTest, PlacesThatTouchAndPlacesThatOverlap) {
  const auto shared = connection_->Allocate(4096, MemoryAccess::kReadWrite);
  ASSERT_TRUE(shared.ok()) << shared.status();
  const std::shared_ptr<const NamedMemory> memory = Named(*shared);
  ASSERT_TRUE(memory->BeginWriting(80, 160));
  for (const auto& [begin, end] :
       {std::pair(72, 88), {80, 88}, {152, 160}, {152, 168}, {0, 1000}, {96, 104}}) {
    EXPECT_FALSE(memory->BeginWriting(begin, end)) << begin;
  }
  for (const auto& [begin, end] : {std::pair(0, 80), {160, 240}}) {
    ASSERT_TRUE(memory->BeginWriting(begin, end)) << begin;
    memory->EndWriting(begin);
  }
  memory->EndWriting(80);
  ASSERT_TRUE(memory->BeginWriting(0, 1000));
  memory->EndWriting(0);
}

// A call without segments names no byte of the place of another one.
TEST_F(WritableMemoryTest, PlacesWithoutBytes) {
  const auto shared = connection_->Allocate(4096, MemoryAccess::kReadWrite);
  ASSERT_TRUE(shared.ok()) << shared.status();
  const std::shared_ptr<const NamedMemory> memory = Named(*shared);
  const auto place = ResultsMemory::Take(memory, 80, 8, 10);
  ASSERT_TRUE(place.has_value());
  for (const std::uint64_t begin : {0, 80, 96, 152, 160}) {
    EXPECT_TRUE(ResultsMemory::Take(memory, begin, 8, 0).has_value()) << begin;
    EXPECT_FALSE(ResultsMemory::Take(memory, 96, 8, 1).has_value()) << "given back with " << begin;
  }
  EXPECT_FALSE(ResultsMemory::Take(memory, 80, 8, 10).has_value());
  const auto nothing = ResultsMemory::Take(memory, 240, 8, 0);
  EXPECT_TRUE(ResultsMemory::Take(memory, 200, 8, 10).has_value());
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) { return warpfold::server::SealOrTest(argc, argv); }
