// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32c.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace warpfold::proto
