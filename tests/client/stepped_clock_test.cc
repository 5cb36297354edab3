// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a call does where the wall clock is set forward under it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace {

std::atomic<std::time_t> wall_clock_step_s = 0;

}  // namespace

// Stands before the C library's, for gRPC and Abseil, too.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += wall_clock_step_s;
  return result;
}

namespace warpfold {
namespace {

class SteppedClockTest : public testing::Test {
 protected:
  ~SteppedClockTest() override { wall_clock_step_s = 0; }

  FakeService service_;
  const FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 1}};
};

TEST_F(SteppedClockTest, AWriterWhoseTimeIsOverWaitsForItsCallNoLongerThanASecond) {
  const Spec spec = {.operators = {"sum"}};
  absl::StatusOr<Writer> opened =
      client_.OpenWriter(spec, ElementType::kInt32, {.timeout = absl::Seconds(20)});
  ASSERT_TRUE(opened.ok()) << opened.status();
  Writer writer = *std::move(opened);
  ASSERT_TRUE(writer.Write(std::vector<std::byte>(4)).ok());
  wall_clock_step_s = 3600;
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = writer.Write(std::vector<std::byte>(4));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "DEADLINE") << status;
  EXPECT_EQ(writer.Write(std::vector<std::byte>(4)), status);
  EXPECT_EQ(writer.Flush(), status);
  EXPECT_EQ(writer.Commit().status(), status);
}

}  // namespace
}  // namespace warpfold
