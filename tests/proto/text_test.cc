// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/text.h"

#include <gtest/gtest.h>

#include <string>

namespace warpfold {
namespace {

TEST(TextTest, IsPrintable) {
  EXPECT_TRUE(IsText("", 8));
  EXPECT_TRUE(IsText(" a~!", 8));
  for (const std::string text : {"\n", "a\tb", "\x1f", "\x7f", "\x80", "r\xc3\xa4", "\xff"}) {
    EXPECT_FALSE(IsText(text, 8)) << text;
  }
  EXPECT_FALSE(IsText(std::string(1, '\0'), 8));
}

TEST(TextTest, IsBounded) {
  EXPECT_TRUE(IsText(std::string(kMaxTextBytes, 'x'), kMaxTextBytes));
  EXPECT_FALSE(IsText(std::string(kMaxTextBytes + 1, 'x'), kMaxTextBytes));
  EXPECT_TRUE(IsText("", 0));
  EXPECT_FALSE(IsText("x", 0));
}

}  // namespace
}  // namespace warpfold
