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
#include "server/net/foreign_descriptors.h"

namespace warpfold::server {

MemoryPeer::~MemoryPeer() {
  for (const std::string& token : tokens_) registrar_.Unregister(token);
  CloseConnectionElsewhere(std::move(socket_), *user_, user_);
}

bool MemoryPeer::Serve(absl::Time now) {
  return Proceed(now) && (sealing_ != nullptr || !tokens_.empty() || now - last_used_ < idle_);
}

bool MemoryPeer::Proceed(absl::Time now) {
  if (sealing_ != nullptr) return EndSealing();
  if (registers()) return IsThere();
  Packet packet;
  const Received received = Receive(socket_, &packet);
  if (received == Received::kNothingYet) return true;
  if (!tokens_.empty()) last_used_ = now;
  if (received == Received::kEnd) return false;
  const bool is_taken = TakeRequest(packet, now);
  if (received == Received::kPacket) return is_taken;
  CloseElsewhere(std::move(packet.descriptor), *user_, user_);
  return false;
}

absl::Time MemoryPeer::deadline() const {
  // Another peer's Serve may have taken the result from the process' socket, where nothing is left to poll.
  if (sealing_ != nullptr && sealing_->result.has_value()) return absl::InfinitePast();
  if (registers()) return absl::InfinitePast();
  const bool is_used = sealing_ != nullptr || !tokens_.empty();
  return is_used ? absl::InfiniteFuture() : last_used_ + idle_;
}

bool MemoryPeer::TakeRequest(Packet& packet, absl::Time now) {
  v1::MemoryRequest request;
  if (packet.is_truncated || !request.ParseFromString(packet.bytes)) {
    return Answer(
        BadMessage(absl::StrCat("a message is not a MemoryRequest of at most ", kMaxPacketBytes, " bytes")));
  }
  const bool registers_host = request.request_case() == v1::MemoryRequest::kRegisterHost;
  if (packet.has_more_descriptors || packet.descriptor.is_open() != registers_host) {
    return Answer(
        BadMessage("exactly one file descriptor comes with register_host, and none with other requests"));
  }
  if (request.request_case() == v1::MemoryRequest::kUnregister) {
    return Answer(Unregister(request.unregister().token()));
  }
  if (request.request_case() == v1::MemoryRequest::REQUEST_NOT_SET) {
    return Answer(BadMessage("a MemoryRequest says what to register or unregister; this one nothing"));
  }
  if (tokens_.size() >= kMaxRegistrations) {
    return Answer(
        kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                       absl::StrCat("a connection has at most ", kMaxRegistrations, " registrations"),
                       {{"limit", "registrations"}, {"value", absl::StrCat(kMaxRegistrations)}}));
  }
  if (!registers_host) return Answer(RegisterGpu(request.register_gpu()));
  const absl::Status begun = BeginRegisterHost(packet.descriptor, request.register_host().byte_count(), now);
  return begun.ok() || Answer(begun);
}

bool MemoryPeer::Answer(const absl::StatusOr<std::string>& token) {
  v1::MemoryResponse response;
  if (token.ok()) {
    response.set_token(*token);
  } else {
    response.set_code(static_cast<int>(token.status().code()));
    response.set_reason(kernels::ErrorReason(token.status()));
    response.set_message(std::string(token.status().message()));
  }
  return SendPacket(socket_, response.SerializeAsString());
}

absl::Status MemoryPeer::BeginRegisterHost(FileDescriptor& memfd, std::uint64_t byte_count, absl::Time now) {
  if (absl::Status status = registrar_.CheckHost(memfd, byte_count, *user_); !status.ok()) return status;
  sealing_ = sealer_.Start(std::move(memfd), *user_, now);
  sealing_bytes_ = byte_count;
  return absl::OkStatus();
}

bool MemoryPeer::IsThere() const {
  pollfd end = watched();
  return poll(&end, 1, 0) == 0;
}

bool MemoryPeer::EndSealing() {
  if (!sealing_->result.has_value()) return IsThere();
  const std::shared_ptr<const Sealing> sealing = std::exchange(sealing_, nullptr);
  if (!sealing->result->ok()) return Answer(*sealing->result);
  absl::StatusOr<std::string> token = registrar_.BeginHost(sealing->memfd, sealing_bytes_, *user_);
  if (!token.ok()) return Answer(token);
  tokens_.push_back(*token);
  registering_ = *std::move(token);
  return true;
}

bool MemoryPeer::RegisterNext() {
  const absl::StatusOr<bool> has_more = registrar_.RegisterNext(registering_);
  if (has_more.ok() && *has_more) return true;
  std::string token = std::exchange(registering_, {});
  if (has_more.ok()) return Answer(std::move(token));
  const absl::Status failed = has_more.status();
  static_cast<void>(Unregister(token));
  return Answer(failed);
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
  absl::StatusOr<std::string> token = registrar_.RegisterGpu(memory, *user_);
  if (token.ok()) tokens_.push_back(*token);
  return token;
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
