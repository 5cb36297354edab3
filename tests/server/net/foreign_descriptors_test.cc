// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/foreign_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <future>
#include <latch>
#include <memory>
#include <vector>

namespace warpfold::server {
namespace {

FileDescriptor Any() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// A descriptor that, when closed, calls `end` on the thread that has closed it.
template <class End>
std::shared_ptr<const void> With(End end) {
  static constexpr char kAnything = 0;
  return {&kAnything, [end](const void*) { end(); }};
}

TEST(ForeignDescriptorsTest, WhoComesWhileAllThreadsHangIsNotForgotten) {
  constexpr uid_t kOwners = kMaxClosers / kClosersOfOne;
  // Threads may still use these when the test is over.
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

// A TCP socket whose close waits for an hour, since its peer does not read what was sent to it.
struct Lingering {
  Lingering() {
    const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.get(), any, size), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), any, &size), 0);
    socket_ = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(socket_.get(), any, size), 0);
    peer_ = FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger an_hour = {.l_onoff = 1, .l_linger = 3600};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof(an_hour));
    const std::vector<char> bytes(1 << 20);
    while (send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }

  FileDescriptor socket_;
  FileDescriptor peer_;
};

void SendDescriptor(int over, int descriptor) {
  char byte = 0;
  iovec bytes = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  ASSERT_EQ(sendmsg(over, &message, 0), 1);
}

// Otherwise two of them would keep everything else that their owner left from being closed, for as long as
// the owner likes.
TEST(ForeignDescriptorsTest, ASocketThatLingersHoldsNoThreadForLong) {
  Lingering lingering[3];
  const auto closed = std::make_shared<std::promise<void>>();
  for (Lingering& each : lingering) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const FileDescriptor theirs(ends[1]);
    ASSERT_NO_FATAL_FAILURE(SendDescriptor(theirs.get(), each.socket_.get()));
    each.socket_ = FileDescriptor();  // the descriptor on its way is the last one
    CloseConnectionElsewhere(FileDescriptor(ends[0]), /*owner=*/1);
  }
  CloseElsewhere(Any(), /*owner=*/1, With([closed] { closed->set_value(); }));
  EXPECT_EQ(closed->get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace warpfold::server
