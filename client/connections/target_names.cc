// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/target_names.h"

#include <sys/un.h>

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace warpfold {

namespace {

// A port consists only of digits. A parser of numbers would accept signs and blanks, too.
bool IsPort(absl::string_view text) {
  constexpr std::size_t kMaxDigits = 5;
  if (text.size() > kMaxDigits) return false;
  if (text.find_first_not_of("0123456789") != absl::string_view::npos) return false;
  int number = 0;
  return absl::SimpleAtoi(text, &number) && number >= 1 && number <= 65535;
}

// Whether the name has a scheme of gRPC's for something other than a host and a port.
bool IsOfAnotherScheme(absl::string_view target) {
  for (const absl::string_view start :
       {"vsock:", "xds:", "google-c2p://", "google-c2p-experimental://", "ipv4://", "ipv6://"}) {
    if (absl::StartsWith(target, start)) return true;
  }
  return false;
}

// What is wrong with what follows "unix:" or "unix-abstract:", as FaultOfTarget.
absl::string_view FaultOfUnixSocket(absl::string_view path) {
  // A path ends with a zero byte, an abstract name begins with one.
  constexpr std::size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  static_assert(kMaxPathBytes == 107);
  const bool is_uri = absl::ConsumePrefix(&path, "//");
  if (path.empty()) return "a Unix socket has a path: unix:/path";
  if (absl::StrContains(path, '\0')) return "the name of a Unix socket has no zero bytes here";
  if (is_uri && path.front() != '/') return "a Unix socket has no host: unix:/path or unix:///path";
  return path.size() > kMaxPathBytes ? "the path of a Unix socket has at most 107 bytes" : "";
}

// The same of "host" in host:port, of which the port is good.
absl::string_view FaultOfHost(absl::string_view host) {
  if (host.empty()) return "the host is missing: a target is host:port";
  // gRPC reads the name as a URI, of which these begin other parts: it would use another port.
  if (host.find_first_of("/?#") != absl::string_view::npos) return "a host has no '/', '?' or '#'";
  const bool is_name_in_brackets = host.front() == '[' && !absl::StrContains(host, ':');
  return is_name_in_brackets ? "brackets are for IPv6 addresses" : "";
}

// Removes the scheme, and the DNS server that a URI may name.
absl::string_view WithoutScheme(absl::string_view target) {
  if (absl::ConsumePrefix(&target, "dns://")) {
    const std::size_t slash = target.find('/');
    return slash == absl::string_view::npos ? "" : target.substr(slash + 1);
  }
  for (const absl::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  return target;
}

// The text after the colon that ends the host; nothing if there is none. gRPC treats a text with several
// colons and no brackets as an address without a port.
std::optional<absl::string_view> PortOf(absl::string_view target) {
  if (absl::StartsWith(target, "[")) {
    const std::size_t end = target.find("]:");
    if (end == absl::string_view::npos) return std::nullopt;
    return target.substr(end + 2);
  }
  const std::size_t colon = target.find(':');
  if (colon == absl::string_view::npos || colon != target.rfind(':')) return std::nullopt;
  return target.substr(colon + 1);
}

}  // namespace

absl::string_view FaultOfTarget(absl::string_view target) {
  if (absl::ConsumePrefix(&target, "unix:") || absl::ConsumePrefix(&target, "unix-abstract:"))
    return FaultOfUnixSocket(target);
  if (IsOfAnotherScheme(target)) return "";
  // gRPC would look up such a URI, of http for example, as the name of a host.
  const bool is_other_uri = absl::StrContains(target, "://") && !absl::StartsWith(target, "dns://");
  if (is_other_uri) return "gRPC has no such scheme: a target is host:port or unix:/path";
  const absl::string_view address = WithoutScheme(target);
  if (absl::StrContains(address, ',')) {
    return "several addresses are named as ipv4:A:1,B:2 or as several targets";
  }
  const std::optional<absl::string_view> port = PortOf(address);
  if (!port.has_value()) return "there is no port: a target is host:port, with IPv6 addresses in brackets";
  if (!IsPort(*port)) return "a port is a number of 1 to 65535";
  return FaultOfHost(address.substr(0, address.size() - port->size() - 1));
}

namespace {

// "ipv4:A:1,B:2" is one target with several addresses.
std::vector<absl::string_view> AddressesOf(absl::string_view target) {
  if (absl::StartsWith(target, "ipv4:") || absl::StartsWith(target, "ipv6:"))
    return absl::StrSplit(target, ',');
  return {target};
}

}  // namespace

std::string UriOf(absl::string_view target) {
  absl::string_view path = target;
  if (!absl::ConsumePrefix(&path, "unix:") && !absl::ConsumePrefix(&path, "unix-abstract:")) {
    return std::string(target);
  }
  std::string uri(target.substr(0, target.size() - path.size()));
  for (const char c : path) {
    // RFC 3986, section 3.3.
    const bool stands_for_itself =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/-._~!$&'()*+,;=:@", c);
    if (stands_for_itself) {
      uri.push_back(c);
    } else {
      absl::StrAppend(&uri, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return uri;
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
    for (const absl::string_view address : AddressesOf(target)) {
      const absl::string_view fault = FaultOfTarget(address);
      if (fault.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat("the client's target '", target, "': ", fault));
    }
  }
  return absl::OkStatus();
}

}  // namespace warpfold
