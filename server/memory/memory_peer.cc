// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memory_peer.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/bad_request.h"
#include "server/net/foreign_descriptors.h"

namespace warpfold::server {

namespace {

absl::StatusOr<kernels::ProcessMemory> MemoryOf(const v1::RegisterGpuMemory& request) {
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
  memory.writable = request.writable();
  return memory;
}

}  // namespace

MemoryPeer::~MemoryPeer() {
  if (registering_.has_value()) registrar_.Unregister(*registering_);
  for (const Registrar::Handle registration : registrations_) registrar_.Unregister(registration);
  if (sealing_ != nullptr) sealing_mapping_.Measure(sealing_->memfd);
  Unmap(std::move(sealing_mapping_), *user_);
  CloseConnectionElsewhere(std::move(socket_), *user_, user_);
}

bool MemoryPeer::Serve(absl::Time now) {
  if (!takes_requests()) last_used_ = now;
  return Proceed(now) && (!takes_requests() || !registrations_.empty() || now - last_used_ < idle_);
}

bool MemoryPeer::Proceed(absl::Time now) {
  if (has_result()) return sealing_ != nullptr ? EndSealing(now) : EndProbing(now);
  const bool waits_for_room = registering_.has_value() && !registers();
  if (waits_for_room && now - began_ >= room_) return GiveUpRoom();
  if (!takes_requests()) return IsThere();
  Packet packet;
  const Received received = Receive(socket_, &packet);
  if (received == Received::kNothingYet) return true;
  if (!registrations_.empty()) last_used_ = now;
  if (received == Received::kEnd) return false;
  const bool is_memfd = received == Received::kPacket;
  return TakeRequest(packet, is_memfd, now) && is_memfd;
}

absl::Time MemoryPeer::deadline() const {
  // The result may be there although there is nothing to poll: Start may have set it, or another peer's Start
  // has taken it from the prober's socket.
  if (has_result() || registers()) return absl::InfinitePast();
  if (registering_.has_value()) return began_ + room_;
  const bool is_used = !takes_requests() || !registrations_.empty();
  return is_used ? absl::InfiniteFuture() : last_used_ + idle_;
}

bool MemoryPeer::TakeRequest(Packet& packet, bool is_memfd, absl::Time now) {
  // If it is rejected, the next request is accepted only when it is closed, which may take long: otherwise a
  // client could make this process run out of descriptors.
  Memfd memfd;
  if (packet.descriptor.is_open()) memfd = Memfd(std::move(packet.descriptor), user_, is_memfd);
  memfd_ = memfd.open();
  v1::MemoryRequest request;
  if (packet.is_truncated || !request.ParseFromString(packet.bytes)) {
    return Answer(
        BadMessage(absl::StrCat("a message is not a MemoryRequest of at most ", kMaxPacketBytes, " bytes")));
  }
  const bool registers_host = request.request_case() == v1::MemoryRequest::kRegisterHost;
  if (packet.has_more_descriptors || memfd.is_open() != registers_host) {
    return Answer(
        BadMessage("exactly one file descriptor comes with register_host, and none with other requests"));
  }
  if (request.request_case() == v1::MemoryRequest::kUnregister) {
    return Answer(Unregister(request.unregister().token()));
  }
  if (request.request_case() == v1::MemoryRequest::REQUEST_NOT_SET) {
    return Answer(BadMessage("a MemoryRequest says what to register or unregister; this one nothing"));
  }
  if (registrations_.size() >= kMaxRegistrations) {
    return Answer(
        kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                       absl::StrCat("a connection has at most ", kMaxRegistrations, " registrations"),
                       {{"limit", "registrations"}, {"value", absl::StrCat(kMaxRegistrations)}}));
  }
  if (!registers_host) return RegisterGpu(request.register_gpu(), now);
  return RegisterHost(std::move(memfd), request.register_host(), now);
}

bool MemoryPeer::Answer(const absl::StatusOr<std::string>& token) {
  v1::MemoryResponse response;
  if (token.ok()) {
    response.set_token(*token);
  } else {
    response.set_code(static_cast<int>(token.status().code()));
    response.set_reason(kernels::ErrorReason(token.status()));
    response.set_message(std::string(token.status().message()));
    const std::string code = absl::StatusCodeToString(token.status().code());
    rejections_.Add(*user_, response.reason().empty() ? code : response.reason(), response.message());
  }
  return SendPacket(socket_, response.SerializeAsString());
}

absl::Status MemoryPeer::CheckWritable(bool writable) const {
  if (!writable || *user_ == geteuid()) return absl::OkStatus();
  return kernels::Error(absl::StatusCode::kPermissionDenied, reason::kNotAllowed,
                        "only the server's own user may register memory that is writable",
                        {{"field", "writable"}});
}

bool MemoryPeer::RegisterHost(Memfd memfd, const v1::RegisterHostMemory& request, absl::Time now) {
  const std::uint64_t byte_count = request.byte_count();
  if (absl::Status status = registrar_.CheckHost(memfd, byte_count, *user_); !status.ok()) {
    return Answer(status);
  }
  // It has to be mapped before it is sealed, and mapping it waits for whoever makes holes in it, as all other
  // threads of this process that map anything then do (docs/adr/0141).
  if (absl::Status status = CheckWritable(request.writable()); !status.ok()) return Answer(status);
  if (request.writable()) {
    sealing_mapping_ = Mapping(memfd, byte_count, /*is_writable=*/true);
    if (sealing_mapping_.bytes().empty()) {
      return Answer(kernels::Error(
          absl::StatusCode::kInvalidArgument, reason::kBadMemory,
          "the memfd cannot be mapped for writing: it must be open for writing, and not sealed "
          "against writes yet",
          {{"field", "writable"}}));
    }
  }
  sealing_ = sealer_.Start(std::move(memfd), *user_, now);
  sealing_bytes_ = byte_count;
  return true;
}

bool MemoryPeer::RegisterGpu(const v1::RegisterGpuMemory& request, absl::Time now) {
  const absl::StatusOr<kernels::ProcessMemory> memory = MemoryOf(request);
  if (!memory.ok()) return Answer(memory.status());
  if (absl::Status status = registrar_.CheckGpu(*memory, *user_); !status.ok()) return Answer(status);
  // Somebody else might have tampered with a handle, so that it names memory of this user's other processes.
  if (absl::Status status = CheckWritable(memory->writable); !status.ok()) return Answer(status);
  if (prober_ == nullptr) return Begin(registrar_.BeginGpu(*memory, *user_), now);
  probing_ = prober_->Start(*memory, *user_, now);
  return !has_result() || EndProbing(now);
}

bool MemoryPeer::IsThere() const {
  pollfd end = watched();
  return poll(&end, 1, 0) <= 0;
}

bool MemoryPeer::EndSealing(absl::Time now) {
  const std::shared_ptr<Sealing> sealing = std::exchange(sealing_, nullptr);
  Mapping writable = std::exchange(sealing_mapping_, Mapping());
  if (!sealing->result->ok()) {
    writable.Measure(sealing->memfd);
    Unmap(std::move(writable), *user_);
    return Answer(*sealing->result);
  }
  return Begin(registrar_.BeginHost(std::move(sealing->memfd), sealing_bytes_, *user_, std::move(writable)),
               now);
}

bool MemoryPeer::EndProbing(absl::Time now) {
  const std::shared_ptr<const Probing> probing = std::exchange(probing_, nullptr);
  if (!probing->result->ok()) return Answer(*probing->result);
  return Begin(registrar_.BeginGpu(probing->memory, *user_), now);
}

bool MemoryPeer::Begin(const absl::StatusOr<Registrar::Handle>& begun, absl::Time now) {
  if (!begun.ok()) return Answer(begun.status());
  registering_ = *begun;
  began_ = now;
  return true;
}

bool MemoryPeer::GiveUpRoom() {
  registrar_.Unregister(*std::exchange(registering_, std::nullopt));
  return Answer(
      kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                     "memory that was given back before is not gone yet, and takes the room",
                     {{"limit", "max_registered_bytes"}, {"value", absl::StrCat(registrar_.max_bytes())}}));
}

bool MemoryPeer::RegisterNext() {
  const absl::StatusOr<bool> has_more = registrar_.RegisterNext(*registering_);
  if (has_more.ok() && *has_more) return true;
  const Registrar::Handle done = *std::exchange(registering_, std::nullopt);
  if (!has_more.ok()) {
    registrar_.Unregister(done);
    return Answer(has_more.status());
  }
  registrations_.push_back(done);
  return Answer(done->token);
}

absl::StatusOr<std::string> MemoryPeer::Unregister(const std::string& token) {
  const auto found =
      std::find_if(registrations_.begin(), registrations_.end(),
                   [&](const Registrar::Handle registration) { return registration->token == token; });
  if (found == registrations_.end()) {
    return kernels::Error(absl::StatusCode::kNotFound, reason::kUnknownMemory,
                          "this connection has no memory of this token", {{"field", "token"}});
  }
  registrar_.Unregister(*found);
  registrations_.erase(found);
  // An answer without any field would be an empty message, which looks like the end of the connection.
  return token;
}

}  // namespace warpfold::server
