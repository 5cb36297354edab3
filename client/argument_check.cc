// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/argument_check.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/chunk_stream.h"
#include "client/status.h"
#include "proto/error_reasons.h"

namespace warpfold {
namespace {

// The server's log takes no longer texts.
constexpr std::size_t kMaxTextBytes = 128;

absl::Status BadOption(absl::string_view what) {
  return RefuseCall(absl::StatusCode::kInvalidArgument, reason::kBadHeader, what);
}

// Other texts than UTF-8 would fail only where they become a message, and without the field's name.
absl::Status CheckText(absl::string_view field, const std::string& text) {
  if (text.size() <= kMaxTextBytes && std::all_of(text.begin(), text.end(), absl::ascii_isprint)) {
    return absl::OkStatus();
  }
  return BadOption(absl::StrCat(field, " must be at most ", kMaxTextBytes, " printable ASCII characters"));
}

}  // namespace

bool HasGoodPort(absl::string_view target) {
  for (const absl::string_view scheme : {"unix:", "unix-abstract:", "vsock:"}) {
    if (absl::StartsWith(target, scheme)) return true;
  }
  const std::size_t colon = target.rfind(':');
  if (colon == absl::string_view::npos) return true;
  const absl::string_view port = target.substr(colon + 1);
  const bool is_number = !port.empty() && port.find_first_not_of("0123456789") == absl::string_view::npos;
  int number = 0;
  // Text that is no number may end an IPv6 address without a port, or a name that gRPC resolves.
  return !is_number || (absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535);
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
    const std::vector<absl::string_view> addresses = absl::StrSplit(target, ',');
    if (std::all_of(addresses.begin(), addresses.end(), HasGoodPort)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the client's target '", target, "': a port is a number of 1 to 65535"));
  }
  return absl::OkStatus();
}

absl::Status CheckCallOptions(const CallOptions& options, int connections) {
  if (absl::Status status = CheckText("request_id", options.request_id); !status.ok()) return status;
  if (options.streams < 0 || options.streams > connections) {
    return BadOption(absl::StrCat("streams must be 0 to the ", connections, " connections of this client"));
  }
  return CheckChunkBytes(options.chunk_bytes);
}

absl::Status CheckWhole(std::uint64_t byte_count, std::uint64_t element_bytes) {
  if (byte_count % element_bytes == 0) return absl::OkStatus();
  return RefuseCall(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                    absl::StrCat(byte_count, " bytes are not a whole number of elements of ", element_bytes));
}

absl::Status CheckOwner(const std::string& owner) { return CheckText("owner", owner); }

}  // namespace warpfold
