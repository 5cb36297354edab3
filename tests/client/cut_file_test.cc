// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A mapped file that is shorter than its map: its call is told so, and no other one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <vector>

#include "client/client.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

constexpr std::size_t kBytes = 8 << 20;

class CutFileTest : public testing::Test {
 protected:
  CutFileTest() {
    const int fd = memfd_create("cut", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, kBytes), 0);
    void* const address = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(address, MAP_FAILED);
    map_ = {static_cast<const std::int32_t*>(address), kBytes / sizeof(std::int32_t)};
    EXPECT_EQ(ftruncate(fd, 0), 0);
    close(fd);
  }
  ~CutFileTest() override { munmap(const_cast<std::int32_t*>(map_.data()), kBytes); }

  std::span<const std::int32_t> map_;
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 1}};
};

// gRPC ends the connection on which it could not read, and the next call is made at once.
TEST_F(CutFileTest, TheNextCallIsToldNothingOfIt) {
  const std::vector<std::int32_t> whole(5, 1);
  for (int i = 0; i < 100; ++i) {
    const absl::Status cut = client_.Reduce(kSum, map_, {.streams = 1}).status();
    ASSERT_TRUE(absl::IsInvalidArgument(cut)) << cut;
    const auto sum = client_.Reduce(kSum, whole, {.streams = 1});
    ASSERT_TRUE(sum.ok()) << i << ": " << sum.status();
    ASSERT_EQ(*sum, 5);
  }
}

}  // namespace
}  // namespace warpfold
