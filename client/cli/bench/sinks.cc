// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/sinks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpfold::cli {
namespace {

constexpr int kMaxReceiveBytes = 16 << 20;
constexpr int kStreamWindowBytes = 4 << 20;

}  // namespace

void ApplySinkSettings(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
}

std::string BoundAddress(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix:")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':') + 1), port);
}

v1::Reduction AnswerTo(const v1::ReduceCommit& commit) {
  v1::Reduction reduction;
  reduction.set_element_count(commit.element_count());
  reduction.mutable_state()->set_element_count(commit.element_count());
  return reduction;
}

v1::Reduction AnswerTo(const v1::MergeRequest& request) {
  std::uint64_t elements = 0;
  for (const v1::PartialState& state : request.states()) elements += state.element_count();
  v1::Reduction reduction;
  reduction.set_element_count(elements);
  return reduction;
}

}  // namespace warpfold::cli
