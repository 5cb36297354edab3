// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a memfd is released, part by part and on which thread.
#include "server/memory/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace warpfold::server {
namespace {

constexpr std::uint64_t kPart = kUnmappedBytes;

// Makes a memfd without pages, which takes no memory.
Memfd Make(std::uint64_t bytes) {
  FileDescriptor memfd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(memfd.get(), static_cast<off_t>(bytes)), 0);
  return Memfd(std::move(memfd), std::make_shared<const uid_t>(getuid()));
}

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }
bool IsMapped(const std::byte* address) {
  return msync(const_cast<std::byte*>(address), 4096, MS_ASYNC) == 0;
}
// False after ten seconds.
template <class Condition>
bool Becomes(Condition condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

TEST(Mapping, IsUnmappedInPartsButForTheLast) {
  const Memfd memfd = Make(3 * kPart + 4096);
  Mapping mapping(memfd, 2 * kPart + 1);
  EXPECT_TRUE(mapping.is_of_large_file());
  const std::byte* const begin = mapping.bytes().data();
  EXPECT_TRUE(mapping.UnmapNext());
  EXPECT_FALSE(IsMapped(begin));
  EXPECT_TRUE(IsMapped(begin + kPart));
  EXPECT_FALSE(mapping.UnmapNext());
  EXPECT_FALSE(IsMapped(begin + kPart));
  EXPECT_TRUE(IsMapped(begin + 2 * kPart));
  EXPECT_FALSE(mapping.UnmapNext());
  EXPECT_EQ(mapping.bytes().size(), 1u);
  const std::weak_ptr<const void> rest = UnmapElsewhere(std::move(mapping), getuid());
  EXPECT_TRUE(Becomes([&] { return rest.expired(); }));
  EXPECT_TRUE(mapping.bytes().empty());
  EXPECT_FALSE(IsMapped(begin + 2 * kPart));
}

TEST(Mapping, OfAFileNoLargerThanAPartGoesAtOnce) {
  const std::byte* address = nullptr;
  {
    Mapping mapping(Make(kPart), kPart);
    address = mapping.bytes().data();
    EXPECT_TRUE(IsMapped(address));
    EXPECT_FALSE(mapping.is_of_large_file());
    EXPECT_FALSE(mapping.UnmapNext());
    EXPECT_TRUE(IsMapped(address));
  }
  EXPECT_FALSE(IsMapped(address));
  EXPECT_TRUE(Mapping(Make(kPart + 1), 1).is_of_large_file()) << "though little of it is mapped";
}

TEST(Mapping, OfAFileWithMuchBehindItsEndIsOfALargeOne) {
  const Memfd memfd = Make(4096);
  ASSERT_EQ(fallocate(memfd.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(kPart + 4096)), 0);
  EXPECT_TRUE(Mapping(memfd, 4096).is_of_large_file());
}

TEST(Mapping, OfAFileThatHasGrownSinceIsOfALargeOneOnceItIsMeasured) {
  const Memfd memfd = Make(4096);
  Mapping mapping(memfd, 4096, /*is_writable=*/true);
  EXPECT_FALSE(mapping.is_of_large_file());
  ASSERT_EQ(fallocate(memfd.get(), 0, 0, static_cast<off_t>(kPart + 4096)), 0);
  mapping.Measure(memfd);
  EXPECT_TRUE(mapping.is_of_large_file());
}

TEST(Mapping, IsWritableOnlyIfThatWasAsked) {
  const Memfd memfd = Make(4096);
  EXPECT_TRUE(Mapping(memfd, 4096).writable().empty());
  const Mapping mapping(memfd, 4096, /*is_writable=*/true);
  ASSERT_EQ(mapping.writable().size(), 4096u);
  mapping.writable()[5] = std::byte{7};
  EXPECT_EQ(mapping.bytes()[5], std::byte{7});
}

TEST(Mapping, OfNothingThatCanBeMappedIsEmpty) {
  Mapping mapping(Memfd(), 4096);
  EXPECT_TRUE(mapping.bytes().empty());
  EXPECT_FALSE(mapping.UnmapNext());
}

TEST(Memfd, OfAnySizeIsClosed) {
  std::optional<Memfd> small = Make(kPart);
  const int small_number = small->get();
  small.reset();
  EXPECT_FALSE(IsOpen(small_number));
  for (int i = 0; i < 10; ++i) {
    std::optional<Memfd> large = Make(kPart + 1);
    const int number = large->get();
    const std::weak_ptr<const void> open = large->open();
    large.reset();
    EXPECT_TRUE(Becomes([&] { return open.expired(); }));
    EXPECT_FALSE(IsOpen(number));
  }
}

}  // namespace
}  // namespace warpfold::server
