// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The trace to which a call belongs: the W3C's Trace Context (https://www.w3.org/TR/trace-context/), as the
// metadata "traceparent" carries it: 00-<trace>-<span of the caller>-<flags>, in lower-case hexadecimal. The
// metadata "tracestate" goes with it: data of tracing systems on the way, which only they interpret.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace warpfold::server {

struct TraceContext {
  std::string trace_id;        // 32 digits
  std::string parent_span_id;  // 16 digits; the caller's
  std::string span_id;         // 16 digits; of this call
  std::string flags;           // 2 digits
  std::string state;           // the caller's tracestate; "" if there is none
};

// Gives the call its own random span. Nothing for a text that the standard says to ignore: one with an
// invalid version, with an id of zeros, or in another form.
std::optional<TraceContext> ParseTraceparent(absl::string_view text);

// The header of the same form that tells the caller the span of this call.
std::string ToTraceresponse(const TraceContext& context);

}  // namespace warpfold::server
