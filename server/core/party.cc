// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/party.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/core/allow_list.h"

namespace warpfold::server {
namespace {

constexpr absl::string_view kIpv6 = "ipv6:";

std::string TextOf(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(family, address, text, sizeof(text)) != nullptr ? text : "";
}

}  // namespace

std::string HostOf(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return TextOf(AF_INET, &address.s6_addr[12]);
  in6_addr network = address;
  std::memset(&network.s6_addr[8], 0, 8);
  return TextOf(AF_INET6, &network);
}

std::string PartyOf(const std::string& identity, absl::string_view peer) {
  if (identity != kAnonymous) return identity;
  const std::string host(peer.substr(0, peer.rfind(':')));
  if (!absl::StartsWith(host, kIpv6)) return host;
  // Brackets may be written as gRPC does, and a zone, "%25eth0", may follow the address.
  std::string text =
      absl::StrReplaceAll(host.substr(kIpv6.size()), {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  text.resize(std::min(text.size(), text.find('%')));
  in6_addr address = {};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return host;
  return absl::StrCat(IN6_IS_ADDR_V4MAPPED(&address) ? "ipv4:" : kIpv6, HostOf(address));
}

}  // namespace warpfold::server
