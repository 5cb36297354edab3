// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/expiry_notice.h"

#include "gtest/gtest.h"

namespace warpfold::server {
namespace {

const absl::Time kExpiry = absl::UnixEpoch() + absl::Hours(24 * 100);
constexpr absl::Duration kTick = absl::Seconds(1);

std::string Date(absl::Time time) { return absl::FormatTime("%F", time, absl::UTCTimeZone()); }

TEST(ExpiryNoticeTest, ComesAWeekBeforeADayBeforeAndThen) {
  ExpiryNotice notice;
  EXPECT_EQ(notice.Due(kExpiry, Date), "") << "nothing is watched";
  notice.Watch(kExpiry, "it");
  for (const auto& [before, said] : {std::pair(absl::Hours(24 * 7), "it expires on 1970-04-11"),
                                     std::pair(absl::Hours(24), "it expires on 1970-04-11"),
                                     std::pair(absl::ZeroDuration(), "it expired on 1970-04-11")}) {
    EXPECT_EQ(notice.Due(kExpiry - before - kTick, Date), "");
    EXPECT_EQ(notice.Due(kExpiry - before, Date), said);
    EXPECT_EQ(notice.Due(kExpiry - before, Date), "") << "it is said once";
  }
}

TEST(ExpiryNoticeTest, WhatIsLateIsSaidOnce) {
  ExpiryNotice notice;
  notice.Watch(kExpiry, "it");
  EXPECT_EQ(notice.Due(kExpiry + kTick, Date), "it expired on 1970-04-11");
  EXPECT_EQ(notice.Due(kExpiry + kTick, Date), "");
  EXPECT_EQ(notice.Due(kExpiry - kTick, Date), "") << "clocks may be set back";
  notice.Watch(kExpiry + absl::Hours(24 * 30), "it");
  EXPECT_EQ(notice.Due(kExpiry, Date), "") << "something else is in use";
  notice.Watch(kExpiry, "it");
  EXPECT_EQ(notice.Due(kExpiry, Date), "it expired on 1970-04-11");
  notice.Watch(std::nullopt, "it");
  EXPECT_EQ(notice.Due(kExpiry, Date), "");
}

}  // namespace
}  // namespace warpfold::server
