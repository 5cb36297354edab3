// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/trace_context.h"

#include <gtest/gtest.h>

namespace warpfold::server {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

TEST(TraceContextTest, TakesTheIdsAndGivesTheCallASpanOfItsOwn) {
  const auto context = ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(context->parent_span_id, kSpan);
  EXPECT_EQ(context->flags, "01");
  EXPECT_EQ(context->span_id.size(), 16u);
  EXPECT_NE(context->span_id, kSpan);
  EXPECT_EQ(ToTraceresponse(*context), "00-4bf92f3577b34da6a3ce929d0e0e4736-" + context->span_id + "-01");
  EXPECT_NE(ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")->span_id,
            context->span_id);
}

TEST(TraceContextTest, TakesTheFieldsItKnowsOfALaterVersion) {
  EXPECT_TRUE(ParseTraceparent("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").has_value());
  EXPECT_TRUE(ParseTraceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").has_value());
}

TEST(TraceContextTest, IgnoresWhatTheStandardTellsToIgnore) {
  for (const char* text : {
           "",
           "00",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
           "00.4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01-",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba9\n2b7-01",
       }) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace warpfold::server
