// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/foreign_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <memory>

namespace warpfold::server {
namespace {

FileDescriptor Any() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Whose end calls `end`, on the thread that has closed the descriptor.
template <class End>
std::shared_ptr<const void> With(End end) {
  static constexpr char kAnything = 0;
  return {&kAnything, [end](const void*) { end(); }};
}

TEST(ForeignDescriptorsTest, WhoComesWhileAllThreadsHangIsNotForgotten) {
  constexpr uid_t kOwners = kMostClosers / kClosersOfOne;
  // Threads may still be in these when the test is over.
  const auto hangs = std::make_shared<std::latch>(1);
  const auto closed = std::make_shared<std::promise<void>>();
  for (uid_t owner = 0; owner < kOwners; ++owner) {
    for (int i = 0; i < kClosersOfOne; ++i) CloseElsewhere(Any(), owner, With([hangs] { hangs->wait(); }));
  }
  CloseElsewhere(Any(), kOwners, With([closed] { closed->set_value(); }));
  std::future<void> is_closed = closed->get_future();
  hangs->count_down();
  EXPECT_EQ(is_closed.wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

}  // namespace
}  // namespace warpfold::server
