// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The system calls beneath the functions that watched_sockets.cc replaces in the whole process: whoever
// replaces a function, or must not come back to the replacement, calls these. Internal.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer replaces the functions, too. It must see that a descriptor is closed before another thread
// gets its number, and that what is sent comes before what is received: otherwise it reports races.
extern "C" int __interceptor_close(int descriptor);
extern "C" ssize_t __interceptor_recvmsg(int descriptor, msghdr* message, int flags);
extern "C" ssize_t __interceptor_sendmsg(int descriptor, const msghdr* message, int flags);
#endif

namespace warpfold::server {

// All set errno.
#ifdef __SANITIZE_THREAD__
inline int SystemClose(int descriptor) { return __interceptor_close(descriptor); }
inline ssize_t SystemReceive(int descriptor, msghdr* message, int flags) {
  return __interceptor_recvmsg(descriptor, message, flags);
}
inline ssize_t SystemSend(int descriptor, const msghdr* message, int flags) {
  return __interceptor_sendmsg(descriptor, message, flags);
}
#else
inline int SystemClose(int descriptor) { return static_cast<int>(syscall(SYS_close, descriptor)); }
inline ssize_t SystemReceive(int descriptor, msghdr* message, int flags) {
  return syscall(SYS_recvmsg, descriptor, message, flags);
}
inline ssize_t SystemSend(int descriptor, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, descriptor, message, flags);
}
#endif

}  // namespace warpfold::server
