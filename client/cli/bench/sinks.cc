// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/sinks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/calls/answer_check.h"
#include "client/calls/stripes.h"

namespace warpfold::cli {
namespace {

constexpr int kMaxReceiveBytes = 16 << 20;
constexpr int kStreamWindowBytes = 4 << 20;
constexpr int kMaxFrameBytes = 256 << 10;
constexpr int kMinPingIntervalMs = 10'000;

// Gives the result a zero of the kind that makes it fit. False if none does.
template <class Fits>
bool SetZero(v1::OperatorResult& result, const Fits& fits) {
  result.set_double_value(0);
  if (fits()) return true;
  result.set_int64_value(0);
  if (fits()) return true;
  result.set_uint64_value(0);
  if (fits()) return true;
  result.set_bool_value(false);
  return fits();
}

// The client's own check says of which kind an operator's value is, and which indices it has.
v1::OperatorResult ResultOf(const v1::ReductionSpec& spec, v1::Operator op, const Stripe& range) {
  v1::ReductionSpec alone = spec;
  alone.clear_operators();
  alone.add_operators(op);
  v1::Reduction reduction;
  reduction.set_element_count(range.element_count);
  v1::OperatorResult& result = *reduction.add_results();
  result.set_operator_(op);
  const auto fits = [&] { return CheckReduction(alone, range, /*state=*/false, reduction).ok(); };
  if (SetZero(result, fits)) return result;
  result.set_index(range.first_element);
  if (SetZero(result, fits)) return result;
  result.set_end_index(range.first_element + 1);
  SetZero(result, fits);
  return result;
}

v1::Reduction AnswerOf(const v1::ReductionSpec& spec, const Stripe& range) {
  v1::Reduction reduction;
  for (const int op : spec.operators()) {
    *reduction.add_results() = ResultOf(spec, static_cast<v1::Operator>(op), range);
  }
  reduction.set_element_count(range.element_count);
  reduction.mutable_state()->set_first_element(range.first_element);
  reduction.mutable_state()->set_element_count(range.element_count);
  return reduction;
}

}  // namespace

void ApplySinkSettings(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
}

std::string BoundAddress(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix:")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':') + 1), port);
}

v1::Reduction AnswerTo(const v1::ReduceHeader& header, const v1::ReduceCommit& commit) {
  return AnswerOf(header.spec(), {header.first_element(), commit.element_count()});
}

v1::Reduction AnswerTo(const v1::MergeRequest& request) {
  Stripe range = {.first_element = request.states().empty() ? 0 : request.states(0).first_element()};
  for (const v1::PartialState& state : request.states()) range.element_count += state.element_count();
  return AnswerOf(request.spec(), range);
}

v1::GetServerInfoResponse SinkInfo() {
  v1::GetServerInfoResponse info;
  info.set_version("sink");
  info.mutable_limits()->set_max_message_bytes(kMaxReceiveBytes);
  return info;
}

}  // namespace warpfold::cli
