// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What can be said of a target by its name alone, before anything connects to it. Internal, and used by the
// command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpfold {

// What is wrong with the name of one address, as the end of a sentence; empty if nothing can be seen. gRPC
// takes what begins as a number for a port, modulo 65536, which is another one; it takes 443 where there is
// none; and it does not say that the path of a Unix socket is too long. What is right in names of other
// schemes than dns, ipv4, ipv6 and unix only gRPC knows.
absl::string_view FaultOfTarget(absl::string_view target);

// The name as gRPC takes it. It takes the path of a Unix socket for that of a URI: it would cut off what
// follows a # or ?, and decode what follows a %, and reach another socket.
std::string UriOf(absl::string_view target);

// Whether the target is of this machine, by what it is called: 127.*, ::1, localhost, or a Unix socket. Of
// other addresses that the machine has, their names do not tell.
bool IsOfThisMachine(absl::string_view target);

// OK for at least one target, each with a name and a good port, else INVALID_ARGUMENT.
absl::Status CheckTargets(const std::vector<std::string>& targets);

}  // namespace warpfold
