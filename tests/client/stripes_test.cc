// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/stripes.h"

#include <gtest/gtest.h>

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
      for (int streams = 1; streams <= 9; ++streams) {
        const std::vector<Stripe> stripes = CutIntoStripes(count, element_bytes, streams);
        ASSERT_LE(stripes.size(), static_cast<std::size_t>(streams));
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

}  // namespace
}  // namespace warpfold
