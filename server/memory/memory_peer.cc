// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memory_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/refusals.h"
#include "server/memory/foreign_descriptors.h"

namespace warpfold::server {

MemoryPeer::~MemoryPeer() {
  for (const std::string& token : tokens_) registrar_.Unregister(token);
  CloseConnectionElsewhere(std::move(socket_), *user_, user_);
}

bool MemoryPeer::Serve(absl::Time now) {
  Packet packet;
  const Received received = Receive(socket_, &packet);
  if (received == Received::kNothingYet) return true;
  if (!tokens_.empty()) last_used_ = now;
  if (received == Received::kEnd) return false;
  const bool is_sent = SendPacket(socket_, Answer(packet).SerializeAsString());
  if (received == Received::kPacket) return is_sent;
  CloseElsewhere(std::move(packet.descriptor), *user_, user_);
  return false;
}

v1::MemoryResponse MemoryPeer::Answer(const Packet& packet) {
  v1::MemoryResponse response;
  v1::MemoryRequest request;
  const bool is_request = !packet.is_truncated && request.ParseFromString(packet.bytes);
  absl::StatusOr<std::string> token =
      is_request ? Act(request, packet)
                 : BadMessage(absl::StrCat("a message is not a MemoryRequest of at most ", kMaxPacketBytes,
                                           " bytes"));
  if (token.ok()) {
    response.set_token(*std::move(token));
  } else {
    response.set_code(static_cast<int>(token.status().code()));
    response.set_reason(kernels::ErrorReason(token.status()));
    response.set_message(std::string(token.status().message()));
  }
  return response;
}

absl::StatusOr<std::string> MemoryPeer::Act(const v1::MemoryRequest& request, const Packet& packet) {
  const bool registers_host = request.request_case() == v1::MemoryRequest::kRegisterHost;
  if (packet.has_more_descriptors || packet.descriptor.is_open() != registers_host) {
    return BadMessage("exactly one file descriptor comes with register_host, and none with other requests");
  }
  if (request.request_case() == v1::MemoryRequest::kUnregister) {
    return Unregister(request.unregister().token());
  }
  if (request.request_case() == v1::MemoryRequest::REQUEST_NOT_SET) {
    return BadMessage("a MemoryRequest says what to register or unregister; this one nothing");
  }
  if (tokens_.size() >= kMaxRegistrations) {
    return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                          absl::StrCat("a connection has at most ", kMaxRegistrations, " registrations"),
                          {{"limit", "registrations"}, {"value", absl::StrCat(kMaxRegistrations)}});
  }
  absl::StatusOr<std::string> token =
      registers_host ? RegisterHost(request.register_host(), packet) : RegisterGpu(request.register_gpu());
  if (token.ok()) tokens_.push_back(*token);
  return token;
}

absl::StatusOr<std::string> MemoryPeer::RegisterHost(const v1::RegisterHostMemory& request,
                                                     const Packet& packet) {
  return registrar_.RegisterHost(packet.descriptor, request.byte_count());
}

absl::StatusOr<std::string> MemoryPeer::RegisterGpu(const v1::RegisterGpuMemory& request) {
  kernels::ProcessMemory memory;
  if (request.handle().size() != memory.handle.size()) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory,
                          absl::StrCat("a handle has ", memory.handle.size(), " bytes"),
                          {{"field", "handle"}});
  }
  std::memcpy(memory.handle.data(), request.handle().data(), memory.handle.size());
  // A zero ends it.
  if (request.pci_bus_id().size() >= memory.pci_bus_id.size()) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory,
                          "no GPU has so long a pci_bus_id", {{"field", "pci_bus_id"}});
  }
  request.pci_bus_id().copy(memory.pci_bus_id.data(), memory.pci_bus_id.size());
  memory.byte_offset = request.byte_offset();
  memory.byte_count = request.byte_count();
  return registrar_.RegisterGpu(memory);
}

absl::StatusOr<std::string> MemoryPeer::Unregister(const std::string& token) {
  const auto found = std::find(tokens_.begin(), tokens_.end(), token);
  if (found == tokens_.end()) {
    return kernels::Error(absl::StatusCode::kNotFound, reason::kUnknownMemory,
                          "this connection has no memory of this token", {{"field", "token"}});
  }
  tokens_.erase(found);
  registrar_.Unregister(token);
  // An answer without any field would be a message of no bytes, which looks like the end of the connection.
  return token;
}

}  // namespace warpfold::server
