// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// To which trace a call belongs: the W3C's Trace Context (https://www.w3.org/TR/trace-context/), as the
// metadata "traceparent" carries it: 00-<trace>-<span of the caller>-<flags>, in lower-case hexadecimals.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace warpfold::server {

struct TraceContext {
  std::string trace_id;        // 32 digits
  std::string parent_span_id;  // 16 digits; the caller's
  std::string span_id;         // 16 digits; of this call
  std::string flags;           // 2 digits
};

// Gives the call a span of its own at random. Nothing for a text that the standard tells to ignore: of a
// version that is not one, with an id of zeros, or of another form.
std::optional<TraceContext> ParseTraceparent(absl::string_view text);

// The header of the same form that tells the caller of the span of this call.
std::string ToTraceresponse(const TraceContext& context);

}  // namespace warpfold::server
