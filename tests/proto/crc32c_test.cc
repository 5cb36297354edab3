// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace warpfold::proto {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32cTest, EqualsPublishedVectors) {
  EXPECT_EQ(ComputeCrc32c({}), 0u);
  EXPECT_EQ(ComputeCrc32c(BytesOf("123456789")), 0xE3069283u);
  EXPECT_EQ(ComputeCrc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAu);
  EXPECT_EQ(ComputeCrc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43u);
  std::vector<unsigned char> ascending(32);
  std::iota(ascending.begin(), ascending.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(ComputeCrc32c(std::as_bytes(std::span(ascending))), 0x46DD794Eu);
  const std::vector<unsigned char> descending(ascending.rbegin(), ascending.rend());
  EXPECT_EQ(ComputeCrc32c(std::as_bytes(std::span(descending))), 0x113FDB5Cu);
}

TEST(Crc32cTest, EveryCutGivesTheSameValue) {
  constexpr std::string_view kText = "The quick brown fox jumps over the lazy dog";
  const std::uint32_t whole = ComputeCrc32c(BytesOf(kText));
  for (std::size_t cut = 0; cut <= kText.size(); ++cut) {
    Crc32c crc;
    crc.Extend(BytesOf(kText.substr(0, cut)));
    crc.Extend(BytesOf(kText.substr(cut)));
    EXPECT_EQ(crc.value(), whole) << cut;
  }
}

TEST(Crc32cTest, TheInstructionAndTheTableAgree) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i % 251);
  for (std::size_t size = 0; size <= bytes.size(); size += 37) {
    const auto part = std::span(bytes).first(size);
    EXPECT_EQ(ComputeCrc32c(part), ~PortableCrc32c(~std::uint32_t{0}, part)) << size;
  }
}

std::vector<std::byte> SomeBytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// If there are this many bytes, three lanes of 2048 bytes are summed up side by side.
TEST(Crc32cTest, LengthsAroundTheLanes) {
  constexpr std::size_t kLanes = 3 * 2048;
  const std::vector<std::byte> bytes = SomeBytes(3 * kLanes + 64);
  for (const std::size_t lanes : {kLanes, 2 * kLanes, 3 * kLanes}) {
    for (std::size_t size = lanes - 17; size <= lanes + 17; ++size) {
      for (const std::size_t offset : {0, 1, 7}) {
        const auto part = std::span(bytes).subspan(offset, size);
        ASSERT_EQ(ComputeCrc32c(part), ~PortableCrc32c(~std::uint32_t{0}, part)) << size << ", " << offset;
      }
    }
  }
}

TEST(Crc32cTest, ExtendingByAChecksumIsExtendingByItsBytes) {
  const std::vector<std::byte> bytes = SomeBytes(20'000);
  const auto whole = std::span(bytes);
  for (const std::size_t first : {0, 1, 8, 100, 6143, 6144, 6145, 19'999, 20'000}) {
    for (const std::size_t second : {0, 1, 3, 4096, 6144, 12'289}) {
      const std::size_t size = std::min(second, bytes.size() - first);
      Crc32c crc;
      crc.Extend(whole.first(first));
      crc.ExtendBy(ComputeCrc32c(whole.subspan(first, size)), size);
      EXPECT_EQ(crc.value(), ComputeCrc32c(whole.first(first + size))) << first << " + " << size;
      crc.Extend(whole.subspan(first + size));
      EXPECT_EQ(crc.value(), ComputeCrc32c(whole)) << first << " + " << size;
    }
  }
}

TEST(Crc32cTest, ExtendingByChecksumsAlone) {
  const std::vector<std::byte> bytes = SomeBytes(5000);
  Crc32c crc;
  for (std::size_t at = 0; at < bytes.size(); at += 500) {
    crc.ExtendBy(ComputeCrc32c(std::span(bytes).subspan(at, 500)), 500);
  }
  EXPECT_EQ(crc.value(), ComputeCrc32c(bytes));
}

TEST(Crc32cTest, ExtendingByMoreThanAMessage) {
  Crc32c at_once;
  Crc32c in_parts;
  const std::uint64_t zeros = std::uint64_t{1} << 20;
  const std::uint32_t of_zeros = ComputeCrc32c(std::vector<std::byte>(zeros));
  at_once.ExtendBy(ComputeCrc32c(std::vector<std::byte>(8 * zeros)), 8 * zeros);
  for (int i = 0; i < 8; ++i) in_parts.ExtendBy(of_zeros, zeros);
  EXPECT_EQ(at_once.value(), in_parts.value());
}

}  // namespace
}  // namespace warpfold::proto
