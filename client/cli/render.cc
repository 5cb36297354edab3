// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/render.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/calls/translate.h"
#include "client/cli/json.h"
#include "client/cli/output.h"
#include "client/error.h"

namespace warpfold::cli {
namespace {

std::string ScalarText(const Scalar& scalar) {
  return std::visit(
      [](auto value) -> std::string {
        if constexpr (std::is_same_v<decltype(value), double>) return FormatDouble(value);
        if constexpr (std::is_same_v<decltype(value), bool>) return value ? "true" : "false";
        return absl::StrCat(value);
      },
      scalar);
}

std::string ScalarJson(const Scalar& scalar) {
  const double* value = std::get_if<double>(&scalar);
  if (value != nullptr && !std::isfinite(*value)) return absl::StrCat("\"", ScalarText(scalar), "\"");
  return ScalarText(scalar);
}

// "[[a, b], [c, d]]" with the given separator.
template <typename Format>
std::string Rows(const Matrix& matrix, absl::string_view separator, Format format) {
  std::string text = "[";
  for (std::size_t i = 0; i < matrix.entries.size(); ++i) {
    const bool starts_row = i % matrix.shape.columns == 0;
    if (i != 0) absl::StrAppend(&text, starts_row ? "]" : "", separator);
    absl::StrAppend(&text, starts_row ? "[" : "", format(matrix.entries[i]));
  }
  return text + "]]";
}

std::string QuotedJson(const std::string& text) { return AsciiJson(nlohmann::json(text)); }

std::string ValueText(const Value& value) {
  if (const auto* matrix = std::get_if<Matrix>(&value)) return Rows(*matrix, ", ", ScalarText);
  if (const auto* fields = std::get_if<Fields>(&value)) {
    return absl::StrJoin(*fields, " ", [](std::string* out, const auto& field) {
      absl::StrAppend(out, field.first, " ", ScalarText(field.second));
    });
  }
  return ScalarText(std::get<Scalar>(value));
}

std::string ValueJson(const Value& value) {
  if (const auto* matrix = std::get_if<Matrix>(&value)) return Rows(*matrix, ",", ScalarJson);
  if (const auto* fields = std::get_if<Fields>(&value)) {
    const auto append = [](std::string* out, const auto& field) {
      absl::StrAppend(out, QuotedJson(field.first), ":", ScalarJson(field.second));
    };
    return absl::StrCat("{", absl::StrJoin(*fields, ",", append), "}");
  }
  return ScalarJson(std::get<Scalar>(value));
}

std::string ErrorJson(const OperatorResult& result) {
  const std::optional<ErrorInfo> info = GetErrorInfo(result.status);
  return absl::StrCat("{\"op\":", QuotedJson(result.name),
                      ",\"error\":{\"code\":", QuotedJson(absl::StatusCodeToString(result.status.code())),
                      ",\"reason\":", QuotedJson(info.has_value() ? info->reason : ""),
                      ",\"message\":", QuotedJson(std::string(result.status.message())), "}}");
}

std::string ResultJson(const OperatorResult& result) {
  if (!result.status.ok()) return ErrorJson(result);
  const std::string value = ValueJson(result.value);
  std::string json = absl::StrCat("{\"op\":", QuotedJson(result.name), ",\"value\":", value);
  if (result.index.has_value()) absl::StrAppend(&json, ",\"index\":", *result.index);
  if (result.end_index.has_value()) absl::StrAppend(&json, ",\"end_index\":", *result.end_index);
  return json + "}";
}

std::string ResultsJson(const std::vector<OperatorResult>& results) {
  const auto append = [](std::string* out, const OperatorResult& result) {
    absl::StrAppend(out, ResultJson(result));
  };
  return absl::StrCat("[", absl::StrJoin(results, ",", append), "]");
}

std::string ResultText(const OperatorResult& result) {
  std::string text = absl::StrCat(result.name, " ", ValueText(result.value));
  if (result.index.has_value()) absl::StrAppend(&text, " index ", *result.index);
  if (result.end_index.has_value()) absl::StrAppend(&text, " end_index ", *result.end_index);
  return text;
}

}  // namespace

std::string FormatDouble(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const double magnitude = std::abs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string ReductionText(const Reduction& reduction) {
  std::string text;
  for (const OperatorResult& result : reduction.results) {
    if (result.status.ok()) absl::StrAppend(&text, ResultText(result), "\n");
  }
  return text;
}

std::string ReductionJson(const Reduction& reduction) {
  return absl::StrCat("{\"element_count\":", reduction.element_count,
                      ",\"device\":", QuotedJson(reduction.device),
                      ",\"results\":", ResultsJson(reduction.results), "}\n");
}

std::string SegmentText(std::uint64_t segment, const std::vector<OperatorResult>& results) {
  std::string text = absl::StrCat(segment);
  for (const OperatorResult& result : results) {
    const std::optional<ErrorInfo> error = GetErrorInfo(result.status);
    absl::StrAppend(&text, " ",
                    error.has_value() ? absl::StrCat(result.name, " ", error->reason) : ResultText(result));
  }
  return text + "\n";
}

std::string SegmentJson(std::uint64_t segment, const std::vector<OperatorResult>& results) {
  return absl::StrCat("{\"segment\":", segment, ",\"results\":", ResultsJson(results), "}\n");
}

std::string InfoText(const v1::GetServerInfoResponse& info) {
  std::string text = absl::StrCat("version ", Printable(info.version()), "\nbackend ",
                                  Printable(info.backend()), "\ndevice ", Printable(info.device()),
                                  "\ncpu_crossover_bytes ", info.cpu_crossover_bytes(), "\n");
  const v1::ServerLimits& limits = info.limits();
  absl::StrAppend(&text, "max_message_bytes ", limits.max_message_bytes(), "\nmax_stream_bytes ",
                  limits.max_stream_bytes(), "\nmax_stream_seconds ", limits.max_stream_seconds(),
                  "\nidle_timeout_seconds ", limits.idle_timeout_seconds(), "\n");
  absl::StrAppend(&text, "max_concurrent_reductions ", limits.max_concurrent_reductions(), "\nslots ",
                  limits.slots(), "\nslot_bytes ", limits.slot_bytes(), "\nmax_matrix_dimension ",
                  limits.max_matrix_dimension(), "\nleaf_bytes ", limits.leaf_bytes(), "\nmax_first_byte ",
                  limits.max_first_byte(), "\nresident_bytes ", limits.resident_bytes(),
                  "\nresident_owner_bytes ", limits.resident_owner_bytes(), "\n");
  absl::StrAppend(&text, "default_time_to_live_seconds ", limits.default_time_to_live_seconds(),
                  "\nmax_time_to_live_seconds ", limits.max_time_to_live_seconds(), "\nalgorithms ",
                  absl::StrJoin(ServedAlgorithms(info), ","), "\n");
  const v1::TransferAdvice& advice = info.transfer_advice();
  absl::StrAppend(&text, "advised_chunk_bytes ", advice.chunk_bytes(), "\nadvised_streams ", advice.streams(),
                  "\nadvised_min_stripe_bytes ", advice.min_stripe_bytes(), "\n");
  for (const ServedOperator& op : ServedOperators(info)) {
    absl::StrAppend(&text, "operator ", op.name, " scalars ", absl::StrJoin(op.scalar_types, ","),
                    " matrices ", absl::StrJoin(op.matrix_types, ","), "\n");
  }
  return text;
}

std::string InfoJson(const v1::GetServerInfoResponse& info) {
  const v1::ServerLimits& limits = info.limits();
  nlohmann::ordered_json json = {{"version", info.version()},
                                 {"backend", info.backend()},
                                 {"device", info.device()},
                                 {"cpu_crossover_bytes", info.cpu_crossover_bytes()}};
  json["limits"] = {{"max_message_bytes", limits.max_message_bytes()},
                    {"max_stream_bytes", limits.max_stream_bytes()},
                    {"max_stream_seconds", limits.max_stream_seconds()},
                    {"idle_timeout_seconds", limits.idle_timeout_seconds()},
                    {"max_concurrent_reductions", limits.max_concurrent_reductions()},
                    {"slots", limits.slots()},
                    {"slot_bytes", limits.slot_bytes()},
                    {"max_matrix_dimension", limits.max_matrix_dimension()},
                    {"leaf_bytes", limits.leaf_bytes()},
                    {"max_first_byte", limits.max_first_byte()},
                    {"resident_bytes", limits.resident_bytes()},
                    {"resident_owner_bytes", limits.resident_owner_bytes()},
                    {"default_time_to_live_seconds", limits.default_time_to_live_seconds()},
                    {"max_time_to_live_seconds", limits.max_time_to_live_seconds()}};
  const v1::TransferAdvice& advice = info.transfer_advice();
  json["transfer_advice"] = {{"chunk_bytes", advice.chunk_bytes()},
                             {"streams", advice.streams()},
                             {"min_stripe_bytes", advice.min_stripe_bytes()}};
  json["algorithms"] = ServedAlgorithms(info);
  json["operators"] = nlohmann::ordered_json::array();
  for (const ServedOperator& op : ServedOperators(info)) {
    json["operators"].push_back(
        {{"op", op.name}, {"scalar_types", op.scalar_types}, {"matrix_types", op.matrix_types}});
  }
  return AsciiJson(json) + "\n";
}

}  // namespace warpfold::cli
