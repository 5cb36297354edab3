// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The log on standard error. Whoever logs never waits for whoever reads: lines that find no room are dropped,
// and when there is room again a line says how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/flags.h"
#include "server/log/log_line.h"

namespace warpfold::server {

// Lines of text, or JSON objects with time (UTC), level, event and the event's own fields. Also takes in what
// gRPC logs; what protobuf has to say about malformed messages is dropped, since any client could fill the
// log with it. Lines below `level` are not written. Throws std::system_error where there is no thread for it.
// Call once.
void SetUpLogging(LogFormat format, LogLevel level);

// Writes a line: the event "message" with that text. From any thread. The only way to the log: the logging
// library's headers cost every source that includes them ten seconds of compilation.
void Log(LogLevel level, absl::string_view message);

// Writes a warning of what any client can cause thousands of times in a second: the first ten lines of a kind
// in each second. The others are counted. `kind` says what they are, in few words that are not the client's.
void LogSampled(const std::string& kind, absl::string_view message);

// Says how many lines of each kind LogSampled has left out in seconds that are over. To be called now and
// then, and with `all` at the end.
void SayLinesLeftOut(bool all = false);

// Writes a line of fields. `event` is a word that programs can look for. `make_fields` is called on a thread
// of the log's own, soon or never, and owns what it needs: `bytes`, about. Lines beyond 4 MiB that wait are
// dropped and counted.
void LogEvent(LogLevel level, const char* event, std::function<LogFields()> make_fields, std::size_t bytes);

// Whether lines of this level are written: else it is not worth making one.
bool IsLogged(LogLevel level);

// Lines that were dropped since the process began.
std::int64_t LogLinesDropped();

// What gRPC has logged as errors since the process began, written or not.
std::int64_t GrpcErrors();

// Waits until the lines so far are written, a quarter of a second at most. For the end of the process.
void FlushLog();

}  // namespace warpfold::server
