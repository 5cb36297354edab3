// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/log_queue.h"

namespace warpfold::server {
namespace {

// %* in a pattern: the message as a JSON string.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const nlohmann::json json = std::string(message.payload.data(), message.payload.size());
    const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

// What may wait for a reader.
constexpr std::size_t kQueueBytes = std::size_t{1} << 20;

LogQueue* queue = nullptr;  // from SetUpLogging on

// Formats lines on the thread that logs, and leaves them to the queue.
class QueueSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    queue->Push(std::string(line.data(), line.size()));
  }
  void flush_() override {}
};

std::unique_ptr<spdlog::pattern_formatter> Formatter(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonMessage>('*').set_pattern(
      format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})"
                                 : "%Y-%m-%dT%H:%M:%S.%eZ %l %v");
  return formatter;
}

std::string DropNotice(spdlog::formatter& formatter, std::int64_t dropped) {
  const std::string text = absl::StrCat(dropped, " lines dropped: nobody read the log");
  spdlog::memory_buf_t line;
  formatter.format(spdlog::details::log_msg("", spdlog::level::warn, text), line);
  return std::string(line.data(), line.size());
}

void LogFromGrpc(gpr_log_func_args* args) {
  const spdlog::level::level_enum level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::err : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", args->message);
}

}  // namespace

void SetUpLogging(LogFormat format) {
  // Under the queue's lock, and so in one thread at a time.
  const std::shared_ptr<spdlog::formatter> for_notices = Formatter(format);
  queue = &LogQueue::Make(STDERR_FILENO, kQueueBytes,
                          [for_notices](std::int64_t dropped) { return DropNotice(*for_notices, dropped); });
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<QueueSink>());
  logger->set_formatter(Formatter(format));
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(&LogFromGrpc);
  google::protobuf::SetLogHandler(nullptr);
}

void Log(LogLevel level, absl::string_view message) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::critical};
  spdlog::log(kLevels[static_cast<int>(level)], "{}", std::string(message));
}

void FlushLog() {
  constexpr absl::Duration kLongest = absl::Milliseconds(250);
  if (queue != nullptr) queue->Flush(kLongest);
}

}  // namespace warpfold::server
