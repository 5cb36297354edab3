// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/stripes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "proto/limits.h"

namespace warpfold {
namespace {

TEST(StripesTest, LeafIsTheLargestPowerOfTwoThatFits) {
  EXPECT_EQ(LeafElements(1), 4096u);
  EXPECT_EQ(LeafElements(4), 1024u);
  EXPECT_EQ(LeafElements(8), 512u);
  EXPECT_EQ(LeafElements(36), 64u);  // 3 x 3 int32: 113 would fit
  EXPECT_EQ(LeafElements(4096), 1u);
  EXPECT_EQ(LeafElements(5000), 1u);
}

TEST(StripesTest, CoverTheArrayOnLeafBoundaries) {
  for (const std::uint64_t element_bytes : {4u, 8u, 36u, 512u}) {
    const std::uint64_t leaf = LeafElements(element_bytes);
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, leaf - 1, leaf, leaf + 1, 3 * leaf,
                                      7 * leaf + 5, std::uint64_t{1'000'003}, std::uint64_t{1} << 40}) {
      for (std::uint64_t streams = 1; streams <= 9; ++streams) {
        const std::vector<Stripe> stripes = CutIntoStripes(count, element_bytes, streams);
        ASSERT_LE(stripes.size(), streams);
        std::uint64_t next = 0;
        for (const Stripe& stripe : stripes) {
          EXPECT_EQ(stripe.first_element, next);
          EXPECT_EQ(stripe.first_element % leaf, 0u);
          EXPECT_TRUE(stripe.element_count > 0 || count == 0);
          next += stripe.element_count;
        }
        EXPECT_EQ(next, count) << element_bytes << " bytes, " << streams << " streams";
      }
    }
  }
}

TEST(StripesTest, SizesDifferByALeafAtMost) {
  EXPECT_EQ(CutIntoStripes(10 * 1024, 4, 4),
            (std::vector<Stripe>{{0, 3072}, {3072, 3072}, {6144, 2048}, {8192, 2048}}));
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t LargestOf(const std::vector<Stripe>& stripes) {
  std::uint64_t largest = 0;
  for (const Stripe& stripe : stripes) largest = std::max(largest, stripe.element_count);
  return largest;
}

TEST(SharesTest, CoverTheArrayInOrder) {
  for (const std::uint64_t element_bytes : {1u, 8u, 36u, 4096u}) {
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{4097}, 10 * kMiB + 1, std::uint64_t{1} << 33}) {
      for (const int streams : {1, 3, 8, 64}) {
        std::uint64_t next = 0;
        for (const Stripe& share : CutIntoShares(count, element_bytes, streams)) {
          ASSERT_EQ(share.first_element, next);
          ASSERT_EQ(share.first_element % LeafElements(element_bytes), 0u);
          next += share.element_count;
        }
        EXPECT_EQ(next, count);
      }
    }
  }
}

TEST(SharesTest, AsManyAsStreamsOfASmallArrayAndAsManyForEachOfALargeOne) {
  EXPECT_EQ(CutIntoShares(1'000'003, 4, 4).size(), 4u);
  EXPECT_EQ(CutIntoShares(128 * kMiB, 1, 4).size(), 8u);
  EXPECT_EQ(CutIntoShares(256 * kMiB, 1, 4).size(), 16u);
  const std::vector<Stripe> shares = CutIntoShares(8192 * kMiB, 1, 4);
  EXPECT_EQ(shares.size(), 128u);
  EXPECT_EQ(LargestOf(shares), 64 * kMiB);
  // Their states consist of few subtrees.
  for (const Stripe& share : shares) EXPECT_EQ(share.first_element % (4 * kMiB), 0u);
}

TEST(SharesTest, AsManyAsOneMergeFolds) {
  for (const int streams : {1, 3, 4, 64}) {
    EXPECT_LE(CutIntoShares(std::uint64_t{1} << 50, 1, streams).size(), kMaxMergedStates) << streams;
  }
}

}  // namespace
}  // namespace warpfold
