// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/call_log.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/wire/operator_names.h"
#include "server/log/logging.h"

namespace warpfold::server {
namespace {

// The approximate size of those texts of a record whose lengths the server bounds to some tens of bytes: its
// method, peer, reason and the ids of its trace.
constexpr std::size_t kBytesOfTexts = 256;

// As the API names it, without the prefix: "float32".
std::string TypeName(kernels::ElementType type) {
  constexpr std::size_t kPrefix = sizeof("ELEMENT_TYPE_") - 1;
  return absl::AsciiStrToLower(v1::ElementType_Name(ElementTypeToProto(type)).substr(kPrefix));
}

LogFields FieldsOf(const CallRecord& call, const std::string& reason) {
  LogFields fields = {{"method", call.method}, {"status", absl::StatusCodeToString(call.status.code())},
                      {"bytes", call.bytes},   {"duration_ms", absl::ToDoubleMilliseconds(call.took)},
                      {"peer", call.peer},     {"identity", call.identity}};
  fields.reserve(20);
  const auto add_text = [&fields](const char* name, const std::string& text) {
    if (!text.empty()) fields.emplace_back(name, text);
  };
  add_text("request_id", call.request_id);
  if (call.trace.has_value()) {
    add_text("trace_id", call.trace->trace_id);
    add_text("parent_span_id", call.trace->parent_span_id);
    add_text("span_id", call.trace->span_id);
    add_text("tracestate", call.trace->state);
  }
  if (call.reduction.has_value()) {
    fields.emplace_back("operators", call.reduction->spec().operators);
    add_text("type", TypeName(call.reduction->spec().element_type));
  } else if (call.put_type.has_value()) {
    add_text("type", TypeName(*call.put_type));
  }
  if (call.stages.has_value()) {
    const auto add_time = [&fields](const char* name, std::optional<absl::Duration> time) {
      fields.emplace_back(name, absl::ToDoubleMilliseconds(time.value_or(absl::ZeroDuration())));
    };
    add_time("queue_ms", call.stages->queue);
    add_time("receive_ms", call.stages->receive);
    add_time("copy_ms", call.stages->copy);
    add_time("kernel_ms", call.stages->kernel);
  }
  add_text("reason", reason);
  if (!call.status.ok()) add_text("message", std::string(call.status.message()));
  return fields;
}

// The reason of a failure, or its code if it has none.
std::string KindOf(const absl::Status& status) {
  const std::string reason = kernels::ErrorReason(status);
  return reason.empty() ? absl::StatusCodeToString(status.code()) : reason;
}

// A failure is a warning only if the server or its device is at fault, so that an operator who looks for
// warnings does not see errors of callers, or rejections because of load.
LogLevel LevelOfFailure(absl::string_view kind) {
  for (const absl::string_view fault : {"INTERNAL", "UNKNOWN", reason::kDeviceLost, reason::kLaunchRefused}) {
    if (kind == fault) return LogLevel::kWarning;
  }
  return LogLevel::kInfo;
}

// `kind` is that of a failure.
LogLevel LevelOf(const CallRecord& call, absl::string_view kind) {
  // Probes that find everything in order are not logged. A watch that ends because its client has left is no
  // failure.
  const bool is_probe = call.method == "Check" || call.method == "GetServerInfo";
  const bool is_watch = call.method == "Watch" && absl::IsCancelled(call.status);
  if (is_watch || (is_probe && call.status.ok())) return LogLevel::kDebug;
  return call.status.ok() ? LogLevel::kInfo : LevelOfFailure(kind);
}

}  // namespace

std::size_t BytesInQueue(const CallRecord& call) {
  std::size_t bytes = sizeof(CallRecord) + kBytesOfTexts + call.identity.size() + call.request_id.size() +
                      static_cast<std::size_t>(call.status.message().size());
  if (call.trace.has_value()) bytes += call.trace->state.size();
  if (call.reduction.has_value()) {
    bytes += sizeof(kernels::ReductionSpec);
    for (const std::string& name : call.reduction->spec().operators) {
      bytes += sizeof(name) + name.size() + sizeof(kernels::BoundOperator);
    }
  }
  return bytes;
}

void CallLog::Add(const CallRecord& call) {
  const std::string kind = call.status.ok() ? "" : KindOf(call.status);
  const LogLevel level = LevelOf(call, kind);
  if (!IsLogged(level)) return;
  if (!call.status.ok() && !sampler_.Admit(kind, clock_())) return;
  LogEvent(
      level, "call", [call] { return FieldsOf(call, kernels::ErrorReason(call.status)); },
      BytesInQueue(call));
}

void CallLog::SayLeftOut(bool all) {
  for (const auto& [kind, calls] : sampler_.TakeLeftOut(all ? absl::InfiniteFuture() : clock_())) {
    const auto fields = [kind = kind, calls = calls] {
      return LogFields{{"reason", kind},
                       {"calls", static_cast<std::uint64_t>(calls)},
                       {"message", absl::StrCat(calls, " more calls ended with ", kind)}};
    };
    LogEvent(LevelOfFailure(kind), "calls_left_out", fields, kBytesOfTexts);
  }
}

}  // namespace warpfold::server
