// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/caller_identity.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/core/admission/allow_list.h"
#include "server/net/unix_peers.h"

namespace warpfold::server {
namespace {

// The longest that a SPIFFE ID may be, and more than a DNS name may have.
constexpr std::size_t kMaxNameBytes = 2048;

// The first of the certificate's names of a kind that is a plain word; "" without one. Names come from the
// party that requested the certificate from the authority.
absl::string_view FirstName(const grpc::AuthContext& auth, const char* kind) {
  for (const grpc::string_ref& value : auth.FindPropertyValues(kind)) {
    const absl::string_view name(value.data(), value.size());
    const bool is_plain = !name.empty() && name.size() <= kMaxNameBytes &&
                          std::all_of(name.begin(), name.end(), absl::ascii_isgraph);
    if (is_plain) return name;
  }
  return "";
}

std::string CertificateIdentity(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return kAnonymous;
  // gRPC provides it only for a certificate whose only URI is a valid SPIFFE ID, as the standard requires.
  if (const auto spiffe = FirstName(*auth, GRPC_PEER_SPIFFE_ID_PROPERTY_NAME); !spiffe.empty()) {
    return std::string(spiffe);
  }
  const absl::string_view dns = FirstName(*auth, GRPC_PEER_DNS_PROPERTY_NAME);
  return dns.empty() ? kAnonymous : absl::StrCat("dns:", absl::AsciiStrToLower(dns));
}

}  // namespace

CallerIdentity IdentityOf(const grpc::ServerContextBase& context) {
  std::string peer = context.peer();
  if (const std::optional<std::uint32_t> user = UserOfPeer(peer); user.has_value()) {
    return {.identity = absl::StrCat("uid:", *user), .peer = absl::StrCat("unix:", *user)};
  }
  // Such a peer is of another user namespace, whose users nobody knows here.
  if (absl::StartsWith(peer, "unix:")) peer = "unix:unknown";
  return {.identity = CertificateIdentity(context), .peer = std::move(peer)};
}

}  // namespace warpfold::server
