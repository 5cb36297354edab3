// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/server_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/geometry.h"
#include "kernels/reduction.h"
#include "server/core/limits.h"
#include "server/core/wire/operator_names.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

TEST(ServerInfoTest, ListsTheProtosOperators) {
  FakeBackend backend;
  const Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  const v1::GetServerInfoResponse info = GetServerInfo(service);
  EXPECT_EQ(info.operators_size(), static_cast<int>(kernels::OperatorNames().size()));
  for (const v1::OperatorInfo& op : info.operators()) {
    EXPECT_NE(op.operator_(), v1::OPERATOR_UNSPECIFIED);
    EXPECT_GT(op.scalar_types_size() + op.matrix_types_size(), 0);
  }
}

TEST(ServerInfoTest, TellsTheLimits) {
  FakeBackend backend;
  Service service(backend,
                  Limits{.max_stream_bytes = 1 << 20,
                         .max_concurrent_reductions = 7,
                         .call = {.idle = absl::Seconds(5), .duration = absl::Seconds(6)},
                         .slots = 2,
                         .slot_bytes = 64 << 10},
                  [] { return absl::UnixEpoch(); });
  service.cpu_crossover_bytes = 123;
  service.residents.Open(
      backend.AllocateOfEach(8192),
      {.owner_bytes = 4096, .default_time_to_live = absl::Seconds(7), .max_time_to_live = absl::Seconds(8)});
  const v1::GetServerInfoResponse info = GetServerInfo(service);
  EXPECT_FALSE(info.version().empty());
  EXPECT_EQ(info.backend(), "fake");
  EXPECT_EQ(info.device(), "fake:0");
  EXPECT_EQ(info.cpu_crossover_bytes(), 123u);
  EXPECT_EQ(info.limits().max_message_bytes(), kMaxPayloadBytes);
  EXPECT_EQ(info.limits().max_stream_bytes(), 1u << 20);
  EXPECT_EQ(info.limits().max_concurrent_reductions(), 7u);
  EXPECT_EQ(info.limits().idle_timeout_seconds(), 5u);
  EXPECT_EQ(info.limits().max_stream_seconds(), 6u);
  EXPECT_EQ(info.limits().slots(), 2u);
  EXPECT_EQ(info.limits().slot_bytes(), 64u << 10);
  EXPECT_EQ(info.limits().resident_bytes(), 8192u);
  EXPECT_EQ(info.limits().resident_owner_bytes(), 4096u);
  EXPECT_EQ(info.limits().default_time_to_live_seconds(), 7u);
  EXPECT_EQ(info.limits().max_time_to_live_seconds(), 8u);
  EXPECT_EQ(info.limits().max_matrix_dimension(), static_cast<unsigned>(kernels::kMaxMatrixDimension));
}

TEST(OperatorNamesTest, ProtoAndKernelsKnowTheSame) {
  for (const absl::string_view name : kernels::OperatorNames()) {
    EXPECT_EQ(OperatorName(OperatorByName(name)), std::string(name));
  }
  for (int number = v1::Operator_MIN + 1; number <= v1::Operator_MAX; ++number) {
    const std::string name = OperatorName(static_cast<v1::Operator>(number));
    const auto names = kernels::OperatorNames();
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = ElementTypeAt(i);
    EXPECT_EQ(ElementTypeFromProto(ElementTypeToProto(type)), type);
  }
  EXPECT_EQ(OperatorByName("no_such"), v1::OPERATOR_UNSPECIFIED);
  EXPECT_EQ(OperatorName(static_cast<v1::Operator>(63)), "");
  EXPECT_EQ(ElementTypeFromProto(static_cast<v1::ElementType>(63)), std::nullopt);
  EXPECT_EQ(AlgorithmFromProto(static_cast<v1::Algorithm>(63)), std::nullopt);
}

TEST(ServerInfoTest, SaysHowToSendAndWhereStripesMayStart) {
  FakeBackend backend;
  const Service service(backend, Limits{.max_stream_bytes = 1 << 20, .advised_streams = 6},
                        [] { return absl::UnixEpoch(); });
  const v1::GetServerInfoResponse info = GetServerInfo(service);
  EXPECT_EQ(info.transfer_advice().streams(), 6u);
  EXPECT_EQ(info.transfer_advice().chunk_bytes(), 1u << 20);
  EXPECT_EQ(info.transfer_advice().min_stripe_bytes(), 8u << 20);
  EXPECT_EQ(info.limits().leaf_bytes(), 4096u);
  EXPECT_EQ(info.limits().max_first_byte(), kMaxArrayBytes - (1 << 20));
}

}  // namespace
}  // namespace warpfold::server
