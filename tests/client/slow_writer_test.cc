// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A Writer whose pieces are small and come slowly learns soon that its call is over.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "client/tune_grpc.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

// Otherwise the server's thread receives for the client, too, since both are in this process.
const bool kIsTuned = TuneGrpc().ok();

TEST(SlowWriterTest, LearnsOfAnErrorWhileItWritesLittle) {
  FakeService service;
  service.on_chunk = [](const SeenCall&, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "too long", "ARRAY_TOO_LARGE");
  };
  FakeServer server(service);
  Client client(server.target());
  absl::StatusOr<Writer> writer = client.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  absl::Status status;
  // gRPC looks for itself every five seconds.
  for (int i = 0; i < 300 && status.ok(); ++i) {
    status = writer->Write(std::vector<std::byte>(4));
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// A piece that is larger than what a server lets a client send at once arrives without another Write.
TEST(SlowWriterTest, SendsAllOfAPieceThatComesLate) {
  std::atomic<std::size_t> received = 0;
  FakeService service;
  service.on_chunk = [&received](const SeenCall& call, grpc::ServerContext&) {
    received = call.data.size();
    return grpc::Status::OK;
  };
  FakeServer server(service);
  Client client(server.target());
  absl::StatusOr<Writer> writer = client.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  absl::SleepFor(absl::Milliseconds(600));
  const std::vector<std::byte> piece(2'600'000);
  ASSERT_TRUE(writer->Write(piece).ok());
  for (int i = 0; i < 200 && received < piece.size(); ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(received, piece.size());
  EXPECT_TRUE(writer->Commit().ok());
}

}  // namespace
}  // namespace warpfold
