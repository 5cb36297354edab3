// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/target_names.h"

#include <sys/un.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace warpfold {

namespace {

// True for a name without a port.
bool HasGoodPort(absl::string_view target) {
  if (absl::StartsWith(target, "vsock:")) return true;
  const std::size_t colon = target.rfind(':');
  if (colon == absl::string_view::npos) return true;
  const absl::string_view port = target.substr(colon + 1);
  const bool is_number = !port.empty() && port.find_first_not_of("0123456789") == absl::string_view::npos;
  int number = 0;
  // Text that is no number may end an IPv6 address without a port, or a name that gRPC resolves.
  return !is_number || (absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535);
}

}  // namespace

absl::string_view FaultOfTarget(absl::string_view target) {
  // A path ends with a zero byte, an abstract name begins with one.
  constexpr std::size_t kMostPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  static_assert(kMostPathBytes == 107);
  if (absl::ConsumePrefix(&target, "unix:") || absl::ConsumePrefix(&target, "unix-abstract:")) {
    absl::ConsumePrefix(&target, "//");  // of a URI without a host
    return target.size() > kMostPathBytes ? "the path of a Unix socket has at most 107 bytes" : "";
  }
  return HasGoodPort(target) ? "" : "a port is a number of 1 to 65535";
}

bool IsOfThisMachine(absl::string_view target) {
  if (absl::StartsWith(target, "unix:") || absl::StartsWith(target, "unix-abstract:")) return true;
  for (const absl::string_view scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  if (target == "::1" || target == "[::1]" || absl::StartsWith(target, "[::1]:")) return true;
  const std::string host = absl::AsciiStrToLower(target.substr(0, target.find(':')));
  const bool is_ipv4 = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || (is_ipv4 && absl::StartsWith(host, "127."));
}

absl::Status CheckTargets(const std::vector<std::string>& targets) {
  if (targets.empty()) return absl::InvalidArgumentError("the client has no target, and so no server");
  for (const std::string& target : targets) {
    if (target.empty()) return absl::InvalidArgumentError("a target of the client has no name");
    // "ipv4:A:1,B:2" is one target with several addresses.
    for (const absl::string_view address : absl::StrSplit(target, ',')) {
      const absl::string_view fault = FaultOfTarget(address);
      if (fault.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat("the client's target '", target, "': ", fault));
    }
  }
  return absl::OkStatus();
}

}  // namespace warpfold
