// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The log on standard error. Logging never waits for the reader: lines that find no room are dropped, and
// when there is room again a line says how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/flags.h"
#include "server/log/log_line.h"

namespace warpfold::server {

// Lines of text, or JSON objects with time (UTC), level, event and the event's own fields. Also includes what
// gRPC logs; protobuf's lines about malformed messages are dropped, since any client could fill the log with
// them. Lines below `level` are not written. Throws std::system_error if no thread can be made. Call once.
void SetUpLogging(LogFormat format, LogLevel level);

// Writes a line: the event "message" with that text. From any thread. This is the only way to log: the
// logging library's headers cost every source file that includes them ten seconds of compilation.
void Log(LogLevel level, absl::string_view message);

// Writes a warning about something that any client can cause thousands of times in a second: the first ten
// lines of a kind in each second. The others are counted. `kind` says what they are, in a few words that do
// not come from the client.
void LogSampled(const std::string& kind, absl::string_view message);

// Logs how many lines of each kind LogSampled has left out in seconds that are over. Call this now and then,
// and with `all` at the end.
void SayLinesLeftOut(bool all = false);

// Writes a line of fields. `event` is a word that programs can look for. `make_fields` is called on the log's
// own thread, soon or never, and owns what it needs: about `bytes`. Lines beyond 4 MiB that wait are dropped
// and counted.
void LogEvent(LogLevel level, const char* event, std::function<LogFields()> make_fields, std::size_t bytes);

// Whether lines of this level are written: otherwise it is not worth making one.
bool IsLogged(LogLevel level);

// Lines that were dropped since the process began.
std::int64_t LogLinesDropped();

// The number of errors that gRPC has logged since the process began, written or not.
std::int64_t GrpcErrors();

// Waits until the lines so far are written, a quarter of a second at most. This is for the end of the
// process.
void FlushLog();

}  // namespace warpfold::server
