// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

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

void LogFromGrpc(gpr_log_func_args* args) {
  const spdlog::level::level_enum level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::err : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", args->message);
}

}  // namespace

void SetUpLogging(LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonMessage>('*').set_pattern(
      format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})"
                                 : "%Y-%m-%dT%H:%M:%S.%eZ %l %v");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(&LogFromGrpc);
  google::protobuf::SetLogHandler(nullptr);
}

void Log(LogLevel level, absl::string_view message) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::critical};
  spdlog::log(kLevels[static_cast<int>(level)], "{}", std::string(message));
}

}  // namespace warpfold::server
