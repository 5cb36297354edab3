// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/error.h"
#include "google/rpc/status.pb.h"
#include "proto/error_reasons.h"

namespace warpfold {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kRefusedCallUrl[] = "warpfold/refused_call";  // without content

// `key` is empty if there is nothing more to say.
void AttachReason(absl::string_view reason, absl::Status& status, const char* key = "",
                  absl::string_view value = {}) {
  google::rpc::ErrorInfo info;
  if (*key != '\0') (*info.mutable_metadata())[key] = std::string(value);
  info.set_reason(std::string(reason));
  info.set_domain("warpfold");
  status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
}

bool HasReason(const absl::Status& status, absl::string_view reason) {
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  return info.has_value() && info->reason == reason;
}

// gRPC's text, and what it leaves unsaid.
std::string MessageOf(const grpc::Status& status) {
  // gRPC's poller gives the first text to whoever waits for a socket whose peer has refused the connection,
  // or has hung up, if it saw that before it was asked (ev_poll_posix.cc, notify_on_locked).
  std::string message =
      absl::StrReplaceAll(status.error_message(), {{"FD shutdown", "Connection refused or closed"}});
  // A server that rejects a connection, or its handshake, closes it, and does not say why.
  const bool was_closed =
      absl::EndsWith(message, "Socket closed") || absl::EndsWith(message, "recvmsg:Connection reset by peer");
  if (was_closed && absl::StartsWith(message, "failed to connect")) {
    absl::StrAppend(&message, " (the server accepted the connection and closed it: it may expect TLS or a ",
                    "client certificate, or have as many connections as it allows)");
  }
  return message;
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  const std::string message = MessageOf(status);
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), message);
  if (CouldNotRead(result) && status.error_details().empty()) {
    return absl::UnavailableError(
        absl::StrCat("the connection broke over the memory of one of its calls: ", message));
  }
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      if (detail.type_url() == kRefusedCallUrl) continue;  // the client's own mark
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  if (absl::IsDeadlineExceeded(result) && !GetErrorInfo(result).has_value())
    AttachReason(reason::kDeadline, result);
  return result;
}

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message) {
  absl::Status status(code, message);
  AttachReason(reason, status);
  return status;
}

absl::Status MakeOperatorError(absl::StatusCode code, absl::string_view reason, absl::string_view name,
                               absl::string_view message) {
  absl::Status status(code, message);
  AttachReason(reason, status, "operator", name);
  return status;
}

absl::Status RefuseCall(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                        absl::string_view field) {
  absl::Status status(code, message);
  AttachReason(reason, status, field.empty() ? "" : "field", field);
  status.SetPayload(kRefusedCallUrl, absl::Cord());
  return status;
}

bool IsRefusedCall(const absl::Status& status) { return status.GetPayload(kRefusedCallUrl).has_value(); }

absl::Status BadHeader(absl::string_view what, absl::string_view field) {
  return RefuseCall(absl::StatusCode::kInvalidArgument, reason::kBadHeader, what, field);
}

std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kErrorInfoUrl);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return ErrorInfo{info.reason(), info.domain(), {info.metadata().begin(), info.metadata().end()}};
}

std::string ErrorText(const absl::Status& status) {
  if (status.ok()) return "OK";
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  const std::string reason = info.has_value() ? absl::StrCat(" (", info->reason, ")") : "";
  return absl::StrCat(absl::StatusCodeToString(status.code()), reason, ": ", status.message());
}

absl::Status NoGenerator() { return BadHeader("there is no generator"); }

absl::Status Cancelled() { return absl::CancelledError("the caller has cancelled the request"); }

absl::Status MakeMismatch(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the server's answer does not match the request: ", what));
}

bool IsBusy(const absl::Status& status) {
  return LacksPlaceForArray(status) ||
         (absl::IsResourceExhausted(status) && HasReason(status, reason::kTooManyCalls));
}

bool LacksPlaceForArray(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && HasReason(status, reason::kTooManyReductions);
}

bool IsDraining(const absl::Status& status) {
  return absl::IsUnavailable(status) && HasReason(status, reason::kDraining);
}

bool CouldNotRead(const absl::Status& status) {
  // gRPC's text for EFAULT, for which it has no separate code. A server's errors have a reason.
  return absl::IsUnavailable(status) && !GetErrorInfo(status).has_value() &&
         absl::StrContains(status.message(), "Bad address");
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfoUrl);
  google::rpc::RetryInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  const absl::Duration delay =
      absl::Seconds(info.retry_delay().seconds()) + absl::Nanoseconds(info.retry_delay().nanos());
  if (delay < absl::ZeroDuration()) return std::nullopt;
  return delay;
}

}  // namespace warpfold
