// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Processes that seal memfds for tests: the test's executable, started again.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "server/memory/memfd_sealer.h"

namespace warpfold::server {

inline constexpr char kSealFlag[] = "--seal";
// Memfds of this many bytes are never sealed; those of one byte more end the process that should seal them.
inline constexpr off_t kHangs = 4096 * 3 + 1;
inline constexpr off_t kCrashes = kHangs + 1;

inline int Seal(int memfd) {
  struct stat file = {};
  if (fstat(memfd, &file) == 0 && file.st_size == kHangs) pause();
  if (file.st_size == kCrashes) raise(SIGKILL);
  return SealAgainstHoles(memfd);
}

// The test's main.
inline int SealOrTest(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], kSealFlag) == 0) return ServeSealing(Seal);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace warpfold::server
