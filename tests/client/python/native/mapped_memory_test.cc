// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/mapped_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <list>
#include <span>

namespace warpfold::python {
namespace {

constexpr std::size_t kBytes = 1 << 16;

// A file that the test can cut, and its mapping.
class MappedMemoryTest : public testing::Test {
 protected:
  MappedMemoryTest() : file_(memfd_create("array", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(file_, kBytes), 0);
    void* const address = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file_, 0);
    EXPECT_NE(address, MAP_FAILED);
    bytes_ = {static_cast<const std::byte*>(address), kBytes};
  }
  ~MappedMemoryTest() override {
    munmap(const_cast<std::byte*>(bytes_.data()), kBytes);
    close(file_);
  }

  // A read that the compiler does not leave out.
  int LastByte() const {
    return std::to_integer<int>(*static_cast<const volatile std::byte*>(&bytes_.back()));
  }

  const int file_;
  std::span<const std::byte> bytes_;
};

TEST_F(MappedMemoryTest, EachOfManyRangesIsProtected) {
  const std::byte other[64] = {};
  std::list<MappedRange> before;
  for (int i = 0; i < 5'000; ++i) before.emplace_back(other);
  const MappedRange range(bytes_);
  std::list<MappedRange> same;
  for (int i = 0; i < 500; ++i) same.emplace_back(bytes_.subspan(kBytes / 2));
  ASSERT_EQ(ftruncate(file_, 0), 0);
  EXPECT_EQ(LastByte(), 0);
  EXPECT_TRUE(range.was_cut());
  for (const MappedRange& one : same) EXPECT_TRUE(one.was_cut());
  for (const MappedRange& one : before) EXPECT_FALSE(one.was_cut());
}

TEST_F(MappedMemoryTest, WhatIsMissingStaysMissingAfterTheLastRange) {
  {
    const MappedRange range(bytes_);
    ASSERT_EQ(ftruncate(file_, 0), 0);
    EXPECT_EQ(LastByte(), 0);
  }
  EXPECT_DEATH(LastByte(), "");
  // The slot is used again, and knows nothing of the range before.
  const std::byte other[64] = {};
  EXPECT_FALSE(MappedRange(other).was_cut());
}

}  // namespace
}  // namespace warpfold::python
