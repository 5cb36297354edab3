// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/logging.h"

#include <grpcpp/version_info.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/shared/steady_time.h"
#include "server/log/log_line.h"
#include "server/log/log_queue.h"
#include "server/log/log_sampler.h"

// From gRPC 1.66 on, gRPC and the protobuf that it needs log through abseil.
#if GRPC_CPP_VERSION_MINOR >= 66
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#else
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#endif

namespace warpfold::server {
namespace {

// How many bytes may wait for a reader.
constexpr std::size_t kQueueBytes = std::size_t{4} << 20;

// From SetUpLogging on.
LogQueue* queue = nullptr;
spdlog::formatter* queue_formatter = nullptr;  // only on the queue's thread
LogFormat log_format = LogFormat::kText;

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn, spdlog::level::critical};

// The text after the time and the level.
std::string PayloadOf(const char* event, const LogFields& fields) {
  if (log_format == LogFormat::kText) return PlainText(fields);
  return absl::StrCat(JsonMembers({{"event", event}}), ",", JsonMembers(fields));
}

// The message may contain text from others: gRPC's messages have text from a client's header.
std::string PayloadOf(absl::string_view message) {
  return PayloadOf("message", {{"message", std::string(message)}});
}

std::string LineOf(spdlog::formatter& formatter, const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter.format(message, line);
  return std::string(line.data(), line.size());
}

// Formats lines on the thread that logs, and leaves them to the queue.
class QueueSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string line = LineOf(*formatter_, message);
    const std::size_t bytes = line.size();
    queue->Push([line = std::move(line)] { return line; }, bytes);
  }
  void flush_() override {}
};

std::unique_ptr<spdlog::pattern_formatter> Formatter(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->set_pattern(format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                                    : "%Y-%m-%dT%H:%M:%S.%eZ %l %v");
  return formatter;
}

std::string DropNotice(spdlog::formatter& formatter, std::int64_t dropped) {
  const std::string text =
      PayloadOf(absl::StrCat(dropped, " lines dropped: nobody read the log, or it could not be written"));
  return LineOf(formatter, spdlog::details::log_msg("", spdlog::level::warn, text));
}

LogSampler& Sampler() {
  static LogSampler& sampler = *new LogSampler;  // there may be lines until the process ends
  return sampler;
}

std::atomic<std::int64_t> grpc_errors = 0;

void LogFromGrpc(bool is_error, absl::string_view message) {
  if (is_error) ++grpc_errors;
  // Any client can cause gRPC errors, for example with an invalid handshake: they are only warnings.
  if (is_error) return LogSampled("errors of gRPC's", absl::StrCat("gRPC: ", message));
  if (IsLogged(LogLevel::kDebug)) Log(LogLevel::kDebug, absl::StrCat("gRPC: ", message));
}

// Passes what the libraries log to LogFromGrpc.
#if GRPC_CPP_VERSION_MINOR >= 66
class LibrarySink : public absl::LogSink {
  void Send(const absl::LogEntry& entry) override {
    LogFromGrpc(entry.log_severity() >= absl::LogSeverity::kError, entry.text_message());
  }
};

void TakeLibrariesLogs() {
  static const bool once = [] {
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kFatal);
    absl::InitializeLog();
    absl::AddLogSink(new LibrarySink);  // there may be lines until the process ends
    return true;
  }();
  static_cast<void>(once);
}
#else
void TakeLibrariesLogs() {
  gpr_set_log_function(
      [](gpr_log_func_args* args) { LogFromGrpc(args->severity == GPR_LOG_SEVERITY_ERROR, args->message); });
  google::protobuf::SetLogHandler(nullptr);
}
#endif

}  // namespace

void SetUpLogging(LogFormat format, LogLevel level) {
  log_format = format;
  // Under the queue's lock, and so in one thread at a time.
  const std::shared_ptr<spdlog::formatter> for_notices = Formatter(format);
  queue_formatter = Formatter(format).release();
  queue = &LogQueue::Make(STDERR_FILENO, kQueueBytes,
                          [for_notices](std::int64_t dropped) { return DropNotice(*for_notices, dropped); });
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<QueueSink>());
  logger->set_formatter(Formatter(format));
  logger->set_level(kLevels[static_cast<int>(level)]);
  spdlog::set_default_logger(std::move(logger));
  TakeLibrariesLogs();
}

void Log(LogLevel level, absl::string_view message) {
  spdlog::log(kLevels[static_cast<int>(level)], "{}", PayloadOf(message));
}

void LogSampled(const std::string& kind, absl::string_view message) {
  if (IsLogged(LogLevel::kWarning) && Sampler().Admit(kind, SteadyNow())) Log(LogLevel::kWarning, message);
}

void SayLinesLeftOut(bool all) {
  for (const auto& [kind, lines] : Sampler().TakeLeftOut(all ? absl::InfiniteFuture() : SteadyNow())) {
    Log(LogLevel::kWarning, absl::StrCat("left out ", lines, " more lines: ", kind));
  }
}

void LogEvent(LogLevel level, const char* event, std::function<LogFields()> make_fields, std::size_t bytes) {
  if (queue == nullptr || !IsLogged(level)) return;
  auto make_line = [time = spdlog::log_clock::now(), level, event, make = std::move(make_fields)] {
    const std::string payload = PayloadOf(event, make());
    return LineOf(*queue_formatter,
                  spdlog::details::log_msg(time, {}, "", kLevels[static_cast<int>(level)], payload));
  };
  queue->Push(std::move(make_line), bytes);
}

bool IsLogged(LogLevel level) { return spdlog::should_log(kLevels[static_cast<int>(level)]); }

std::int64_t LogLinesDropped() { return queue == nullptr ? 0 : queue->dropped(); }

std::int64_t GrpcErrors() { return grpc_errors; }

void FlushLog() {
  constexpr absl::Duration kLongest = absl::Milliseconds(250);
  if (queue != nullptr) queue->Flush(kLongest);
}

}  // namespace warpfold::server
