// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Standard input, output and error of a process that was started with some of them closed. The next thing
// that is opened would get such a number: gRPC's own descriptor would be read as input, or a client's
// connection would get the log.
//
// An executable includes this in the file that has main(), and needs no more. gRPC opens descriptors before
// main(), and as a shared library before the executable's own constructors: so this runs before all of them,
// as an entry of .preinit_array, which the ELF standard has for executables alone.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace warpfold {

// Opens what is closed in such a way that reading and writing fail as before, with EBADF.
inline void KeepStandardDescriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // It gets the lowest number that is free, which is this one.
    [[maybe_unused]] const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const keep_standard_descriptors)() = KeepStandardDescriptors;

}  // namespace warpfold
