// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/party.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/core/admission/allow_list.h"

namespace warpfold::server {
namespace {

constexpr absl::string_view kIpv4 = "ipv4:";
constexpr absl::string_view kIpv6 = "ipv6:";
constexpr char kLoopback[] = "127.0.0.1";

std::string TextOf(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(family, address, text, sizeof(text)) != nullptr ? text : "";
}

}  // namespace

std::string HostOf(const in_addr& address) {
  constexpr std::uint32_t kLoopbackNetwork = 127;
  return ntohl(address.s_addr) >> 24 == kLoopbackNetwork ? kLoopback : TextOf(AF_INET, &address);
}

std::string HostOf(const in6_addr& address) {
  if (IN6_IS_ADDR_LOOPBACK(&address)) return kLoopback;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr mapped = {};
    std::memcpy(&mapped, &address.s6_addr[12], sizeof(mapped));
    return HostOf(mapped);
  }
  in6_addr network = address;
  std::memset(&network.s6_addr[8], 0, 8);
  return TextOf(AF_INET6, &network);
}

std::string PartyOf(const std::string& identity, absl::string_view peer) {
  if (identity != kAnonymous) return identity;
  const std::string host(peer.substr(0, peer.rfind(':')));
  if (absl::StartsWith(host, kIpv4)) {
    in_addr address = {};
    const bool is_address = inet_pton(AF_INET, host.c_str() + kIpv4.size(), &address) == 1;
    return is_address ? absl::StrCat(kIpv4, HostOf(address)) : host;
  }
  if (!absl::StartsWith(host, kIpv6)) return host;
  // Brackets may be written as gRPC does, and a zone, "%25eth0", may follow the address.
  std::string text =
      absl::StrReplaceAll(host.substr(kIpv6.size()), {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  text.resize(std::min(text.size(), text.find('%')));
  in6_addr address = {};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return host;
  const bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&address) || IN6_IS_ADDR_LOOPBACK(&address);
  return absl::StrCat(is_ipv4 ? kIpv4 : kIpv6, HostOf(address));
}

}  // namespace warpfold::server
