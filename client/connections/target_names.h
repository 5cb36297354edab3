// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What can be determined about a target from its name alone, before anything connects to it. Internal, and
// used by the command line.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpfold {

// What is wrong with the name of one address, as the end of a sentence; empty if nothing wrong is found. gRPC
// accepts any text that begins with a number as a port, modulo 65536, which is a different port; it uses 443
// if there is none; it does not report that the path of a Unix socket is too long; and it tries for a while
// to reach names that lack a host or a path, or have a scheme that it does not know. Only gRPC knows what is
// valid in names with schemes other than dns, ipv4, ipv6 and unix.
absl::string_view FaultOfTarget(absl::string_view target);

// The name in the form for gRPC. gRPC treats the path of a Unix socket as that of a URI: it would cut off
// what follows a # or ?, and decode what follows a %, and reach another socket.
std::string UriOf(absl::string_view target);

// Whether the target is on this machine, judging by its name: 127.*, ::1, localhost, or a Unix socket. The
// names of other addresses that the machine has do not show this.
bool IsOfThisMachine(absl::string_view target);

// OK for at least one target, each with a name and a good port, else INVALID_ARGUMENT.
absl::Status CheckTargets(const std::vector<std::string>& targets);

}  // namespace warpfold
