// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What servers say about kept arrays is believed only if it can be true.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/client/fake_service.h"
#include "warpfold/v1/arrays.grpc.pb.h"

namespace warpfold {
namespace {

// Keeps nothing, but answers as if it did.
class FakeArrays final : public v1::ArrayService::Service {
 public:
  std::function<void(v1::ResidentArray& array)> change = [](v1::ResidentArray&) {};
  // With what PutArray ends once it has the array; it may cancel the call.
  std::function<grpc::Status(grpc::ServerContext&)> end = [](grpc::ServerContext&) {
    return grpc::Status::OK;
  };
  std::atomic<int> puts = 0;

  grpc::Status PutArray(grpc::ServerContext* context, grpc::ServerReader<v1::PutArrayRequest>* stream,
                        v1::PutArrayResponse* response) override {
    v1::PutArrayRequest request;
    ++puts;
    EXPECT_TRUE(stream->Read(&request));
    const v1::PutArrayHeader header = request.header();
    while (stream->Read(&request)) continue;
    response->set_token("token");
    Describe(response->mutable_array());
    if (header.has_matrix_shape()) {
      *response->mutable_array()->mutable_matrix_shape() = header.matrix_shape();
      response->mutable_array()->set_element_count(kNumbers / 4);
    }
    change(*response->mutable_array());
    return end(*context);
  }
  grpc::Status GetArray(grpc::ServerContext*, const v1::GetArrayRequest*,
                        v1::GetArrayResponse* response) override {
    Describe(response->mutable_array());
    change(*response->mutable_array());
    return grpc::Status::OK;
  }
  grpc::Status ListArrays(grpc::ServerContext*, const v1::ListArraysRequest*,
                          v1::ListArraysResponse* response) override {
    Describe(response->add_arrays());
    change(*response->mutable_arrays(0));
    return grpc::Status::OK;
  }

  static constexpr std::uint64_t kNumbers = 8;

 private:
  static void Describe(v1::ResidentArray* array) {
    array->set_element_type(v1::ELEMENT_TYPE_INT32);
    array->set_element_count(kNumbers);
    array->set_byte_count(kNumbers * sizeof(std::int32_t));
  }
};

class KeptAnswersTest : public testing::Test {
 protected:
  // Of a description of an array that is there, and of one that was kept just now.
  std::vector<absl::Status> Ask() {
    return {client_.GetArray("token").status(), client_.ListArrays().status(),
            client_.Put(std::vector<std::int32_t>(FakeArrays::kNumbers)).status()};
  }
  absl::Status PutMatrices() {
    const std::vector<std::int32_t> numbers(FakeArrays::kNumbers);
    return client_.PutBytes(ElementType::kInt32, MatrixShape{2, 2}, std::as_bytes(std::span(numbers)))
        .status();
  }

  FakeArrays arrays_;
  FakeService service_;
  FakeServer server_{service_, 0, &arrays_};
  Client client_{server_.target()};
};

TEST_F(KeptAnswersTest, AreBelieved) {
  for (const absl::Status& status : Ask()) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(PutMatrices().ok());
}

TEST_F(KeptAnswersTest, ButNotOfAnArrayThatCannotBe) {
  const std::vector<std::function<void(v1::ResidentArray&)>> changes = {
      [](auto& array) { array.set_element_type(v1::ELEMENT_TYPE_UNSPECIFIED); },
      [](auto& array) { array.set_element_count(0); },
      [](auto& array) { array.set_byte_count(31); },
      [](auto& array) { array.mutable_matrix_shape(); },  // 0 x 0
      [](auto& array) {
        array.mutable_matrix_shape()->set_rows(2);
        array.mutable_matrix_shape()->set_columns(2);
      },
      // The bytes of an element do not fit in 64 bits.
      [](auto& array) {
        array.mutable_matrix_shape()->set_rows(1u << 31);
        array.mutable_matrix_shape()->set_columns((1u << 31) + 1);
        array.set_element_count(1);
        array.set_byte_count(std::uint64_t{1} << 33);
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    arrays_.change = changes[i];
    for (const absl::Status& status : Ask()) EXPECT_TRUE(absl::IsInternal(status)) << i << " " << status;
  }
}

TEST_F(KeptAnswersTest, NorOfMatricesOfAnotherShape) {
  arrays_.change = [](v1::ResidentArray& array) { array.clear_matrix_shape(); };
  EXPECT_TRUE(absl::IsInternal(PutMatrices()));
  arrays_.change = [](v1::ResidentArray& array) {
    array.mutable_matrix_shape()->set_rows(1);
    array.mutable_matrix_shape()->set_columns(4);
  };
  EXPECT_TRUE(absl::IsInternal(PutMatrices()));
}

// The array may have been kept, unless the server says that it has not been.
TEST_F(KeptAnswersTest, WhatMayHaveBeenKeptIsNotSentAgain) {
  const std::vector<std::int32_t> numbers(FakeArrays::kNumbers);
  const auto puts = [&](grpc::Status (*end)(grpc::ServerContext&)) {
    arrays_.end = end;
    arrays_.puts = 0;
    Client client(server_.target(), {.backoff = absl::Milliseconds(1)});
    EXPECT_TRUE(absl::IsUnavailable(client.Put(numbers).status()));
    return arrays_.puts.load();
  };
  EXPECT_EQ(puts([](grpc::ServerContext& context) {
              context.TryCancel();
              return grpc::Status::OK;
            }),
            1);
  EXPECT_EQ(puts([](grpc::ServerContext&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"); }),
            1);
  EXPECT_GT(puts([](grpc::ServerContext&) {
              return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "leaving", "DRAINING");
            }),
            1);
}

}  // namespace
}  // namespace warpfold
