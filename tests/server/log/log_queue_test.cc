// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/log/log_sampler.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kCapacity = 1000;
constexpr absl::Duration kLong = absl::Seconds(60);

// A pipe that holds one page, and a queue in front of it.
class LogQueueTest : public testing::Test {
 protected:
  LogQueueTest() {
    EXPECT_EQ(pipe(ends_), 0);
    EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
    queue_ =
        &LogQueue::Make(ends_[1], kCapacity, [](auto dropped) { return absl::StrCat("-", dropped, "\n"); });
  }
  // The queue's thread keeps the end to which it writes.
  ~LogQueueTest() override { close(ends_[0]); }

  void Push(const std::string& line) {
    queue_->Push([line] { return line; }, line.size());
  }

  // The lines that come until one that reads "end".
  std::vector<std::string> ReadToEnd() {
    std::string text;
    char buffer[512];
    while (!absl::StrContains(text, "end\n")) {
      const ssize_t size = read(ends_[0], buffer, sizeof(buffer));
      if (size <= 0) break;
      text.append(buffer, static_cast<std::size_t>(size));
    }
    std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    lines.pop_back();
    return lines;
  }

  int ends_[2] = {};
  LogQueue* queue_ = nullptr;
};

TEST_F(LogQueueTest, WritesLinesInOrder) {
  for (int i = 0; i < 10; ++i) Push(absl::StrCat(i, "\n"));
  Push("end\n");
  EXPECT_TRUE(queue_->Flush(kLong));
  const std::vector<std::string> lines = ReadToEnd();
  ASSERT_EQ(lines.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(lines[i], absl::StrCat(i));
}

TEST_F(LogQueueTest, CallersDoNotMakeTheLines) {
  std::thread::id maker = std::this_thread::get_id();
  const auto make = [&maker] {
    maker = std::this_thread::get_id();
    return std::string("x\n");
  };
  queue_->Push(make, 2);
  EXPECT_TRUE(queue_->Flush(kLong));
  EXPECT_NE(maker, std::this_thread::get_id());
}

TEST_F(LogQueueTest, CountsWhatNobodyReads) {
  constexpr int kFirst = 100'000'000;
  int pushed = 0;
  const auto push = [&] { Push(absl::StrCat(kFirst + pushed++, "\n")); };
  do {
    for (int i = 0; i < 50; ++i) push();
  } while (queue_->Flush(absl::Milliseconds(10)));  // until the pipe is full
  for (int i = 0; i < 1000; ++i) push();            // more than the queue holds
  // Nothing is lost without being counted, and the notice stands where the loss happened.
  std::thread end([this] {
    while (!queue_->Flush(kLong)) continue;
    Push("end\n");
  });
  const std::vector<std::string> lines = ReadToEnd();
  end.join();
  int next = kFirst;
  int notices = 0;
  for (const std::string& line : lines) {
    int number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line, &number)) << line;
    if (number < 0) {
      next -= number;
      ++notices;
    } else {
      ASSERT_EQ(number, next++);
    }
  }
  EXPECT_EQ(next, kFirst + pushed);
  EXPECT_GE(notices, 1);
}

TEST(LogQueueOnAFullDiskTest, CountsWhatIsRefused) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  LogQueue& queue =
      LogQueue::Make(full, kCapacity, [](auto dropped) { return absl::StrCat("-", dropped, "\n"); });
  for (int i = 1; i <= 3; ++i) {
    queue.Push([] { return std::string("a line\n"); }, 7);
    EXPECT_TRUE(queue.Flush(kLong));
    EXPECT_EQ(queue.dropped(), i) << "notices of drops are refused as well, and count for nothing";
  }
}

// As when a disk has room again: the notice covers all lines that were refused.
TEST(LogQueueOnAFullDiskTest, TheNextNoticeSaysWhatRefusedOnesWouldHaveSaid) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const int descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  LogQueue& queue =
      LogQueue::Make(descriptor, kCapacity, [](auto dropped) { return absl::StrCat("-", dropped, "\n"); });
  for (int i = 0; i < 3; ++i) {
    queue.Push([] { return std::string("a line\n"); }, 7);
    EXPECT_TRUE(queue.Flush(kLong));
  }
  ASSERT_EQ(dup2(ends[1], descriptor), descriptor);
  EXPECT_TRUE(queue.Flush(kLong));
  std::array<char, 8> said = {};
  ASSERT_GT(read(ends[0], said.data(), said.size() - 1), 0);
  EXPECT_STREQ(said.data(), "-3\n");
  close(ends[0]);
  close(ends[1]);
}

TEST(LogSamplerTest, SomeOfEachKindInASecond) {
  LogSampler sampler;
  const absl::Time start = absl::UnixEpoch();
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += sampler.Admit("A", start + absl::Milliseconds(i)) ? 1 : 0;
  EXPECT_EQ(admitted, 10);
  EXPECT_TRUE(sampler.Admit("B", start + absl::Milliseconds(999)));
  EXPECT_TRUE(sampler.TakeLeftOut(start + absl::Milliseconds(999)).empty());
  EXPECT_TRUE(sampler.Admit("A", start + absl::Seconds(1)));
  // Reported once the second that they were in is over, even if none follow.
  EXPECT_TRUE(sampler.TakeLeftOut(start + absl::Seconds(1)).empty());
  EXPECT_EQ(sampler.TakeLeftOut(start + absl::Seconds(2)), (std::map<std::string, std::int64_t>{{"A", 990}}));
  EXPECT_TRUE(sampler.TakeLeftOut(start + absl::Seconds(3)).empty());
}

}  // namespace
}  // namespace warpfold::server
