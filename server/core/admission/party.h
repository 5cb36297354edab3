// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The party that a call or a connection counts towards when places and slots are shared out.
#pragma once

#include <netinet/in.h>

#include <string>

#include "absl/strings/string_view.h"

namespace warpfold::server {

// The host that an address belongs to, as text. An IPv6 address belongs to the IPv4 address that is mapped
// into it, or else to its first 64 bits, "2001:db8:0:1::": one host commonly has all addresses that begin
// with them. All loopback addresses, of which everybody on this machine has millions, are "127.0.0.1".
std::string HostOf(const in_addr& address);
std::string HostOf(const in6_addr& address);

// The party of a client: its identity or, if it has none, the host in the address of its connection as gRPC
// writes it ("ipv4:192.0.2.1" of "ipv4:192.0.2.1:50051", "ipv6:2001:db8:0:1::" of
// "ipv6:%5B2001:db8:0:1::7%5D:50051").
std::string PartyOf(const std::string& identity, absl::string_view peer);

}  // namespace warpfold::server
