// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Bad input over the wire gets a clear status and no value, and does not harm the server.
#include <functional>

#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

constexpr char kReduce[] = "/warpfold.v1.ReductionService/Reduce";

v1::ReduceRequest HeaderWith(const std::function<void(v1::ReduceHeader&)>& change) {
  v1::ReduceRequest request = Header({v1::OPERATOR_SUM});
  change(*request.mutable_header());
  return request;
}

class RpcBadInputTest : public RpcTest {
 protected:
  // The error must come without the client's half-close, unless the end itself is the error.
  void ExpectError(const std::vector<v1::ReduceRequest>& requests, grpc::StatusCode code,
                   const std::string& reason, bool half_close = false) {
    const grpc::Status status = Reduce(requests, half_close);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_EQ(Reason(status), reason) << status.error_message();
    EXPECT_FALSE(status.error_message().empty());
    EXPECT_FALSE(response_.has_reduction());
    ExpectUnharmed();
  }

  const v1::ReduceRequest header_ = Header({v1::OPERATOR_SUM});
  const v1::ReduceRequest chunk_ = Chunk(std::vector<std::int32_t>(100'000, 1));
  const v1::ReduceRequest commit_ = Commit(100'000, 400'000);
};

TEST_F(RpcBadInputTest, UnknownOperator) {
  ExpectError({Header({static_cast<v1::Operator>(63)})}, grpc::UNIMPLEMENTED, "UNKNOWN_OPERATOR");
  ExpectError({Header({v1::OPERATOR_UNSPECIFIED})}, grpc::INVALID_ARGUMENT, "BAD_HEADER");
}

TEST_F(RpcBadInputTest, OperatorThatDoesNotTakeTheType) {
  ExpectError({Header({v1::OPERATOR_BIT_XOR}, v1::ELEMENT_TYPE_FLOAT64)}, grpc::INVALID_ARGUMENT,
              "UNSUPPORTED_TYPE");
  ExpectError({Header({v1::OPERATOR_MATRIX_PRODUCT})}, grpc::INVALID_ARGUMENT, "UNSUPPORTED_TYPE");
}

TEST_F(RpcBadInputTest, MessagesOutOfOrder) {
  ExpectError({chunk_}, grpc::INVALID_ARGUMENT, "BAD_ORDER");
  ExpectError({commit_}, grpc::INVALID_ARGUMENT, "BAD_ORDER");
  ExpectError({header_, header_}, grpc::INVALID_ARGUMENT, "BAD_ORDER");
  ExpectError({header_, chunk_, header_}, grpc::INVALID_ARGUMENT, "BAD_ORDER");
  ExpectError({header_, chunk_, commit_, chunk_}, grpc::INVALID_ARGUMENT, "BAD_ORDER");
  ExpectError({header_, chunk_, commit_, commit_}, grpc::INVALID_ARGUMENT, "BAD_ORDER");
}

TEST_F(RpcBadInputTest, NoCommit) {
  ExpectError({}, grpc::DATA_LOSS, "NO_COMMIT", true);
  ExpectError({header_}, grpc::DATA_LOSS, "NO_COMMIT", true);
  ExpectError({header_, chunk_}, grpc::DATA_LOSS, "NO_COMMIT", true);
}

TEST_F(RpcBadInputTest, CommitThatDoesNotMatch) {
  ExpectError({header_, chunk_, Commit(100'001, 400'000)}, grpc::DATA_LOSS, "COUNT_MISMATCH");
  ExpectError({header_, chunk_, Commit(100'000, 400'004)}, grpc::DATA_LOSS, "COUNT_MISMATCH");
  v1::ReduceRequest checked = commit_;
  checked.mutable_commit()->set_crc32c(12345);
  const v1::ReduceRequest announcing = HeaderWith([](auto& h) { h.set_with_crc32c(true); });
  ExpectError({announcing, chunk_, checked}, grpc::DATA_LOSS, "CHECKSUM_MISMATCH");
  ExpectError({announcing, chunk_, commit_}, grpc::INVALID_ARGUMENT, "BAD_HEADER");
  ExpectError({header_, chunk_, checked}, grpc::INVALID_ARGUMENT, "BAD_HEADER");
}

TEST_F(RpcBadInputTest, ElementCutOff) {
  ExpectError({header_, Chunk("abcdefg", 7), Commit(1, 7)}, grpc::DATA_LOSS, "COUNT_MISMATCH");
  ExpectError({header_, Chunk("abcdefg", 7), Commit(2, 7)}, grpc::DATA_LOSS, "COUNT_MISMATCH");
}

TEST_F(RpcBadInputTest, SizesThatOverflow) {
  const std::uint64_t huge = std::uint64_t{1} << 62;
  ExpectError({HeaderWith([&](auto& h) { h.set_expected_element_count(huge); })}, grpc::RESOURCE_EXHAUSTED,
              "ARRAY_TOO_LARGE");
  ExpectError({HeaderWith([&](auto& h) { h.set_first_element(huge); })}, grpc::INVALID_ARGUMENT,
              "BAD_HEADER");
  ExpectError({header_, chunk_, Commit(huge + 100'000, 400'000)}, grpc::DATA_LOSS, "COUNT_MISMATCH");
}

TEST_F(RpcBadInputTest, MoreThanTheLimit) {
  std::vector<v1::ReduceRequest> requests = {header_};
  requests.resize(66, Chunk(std::vector<char>(1 << 20)));
  ExpectError(requests, grpc::RESOURCE_EXHAUSTED, "ARRAY_TOO_LARGE");
}

TEST_F(RpcBadInputTest, EmptyArrayWithoutIdentity) {
  ExpectError({Header({v1::OPERATOR_ARGMAX}), Commit(0, 0)}, grpc::INVALID_ARGUMENT, "EMPTY_ARRAY", true);
}

TEST_F(RpcBadInputTest, TooLargeMessages) {
  // The limit is on the payload: framing does not count.
  const std::vector<char> largest(kMaxPayloadBytes);
  ASSERT_TRUE(Reduce({header_, Chunk(largest), Commit(largest.size() / 4, largest.size())}).ok());
  for (const std::size_t bytes : {kMaxPayloadBytes + 1, 2 * kMaxPayloadBytes}) {
    response_.Clear();
    ExpectError({header_, Chunk(std::vector<char>(bytes))}, grpc::RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE");
    v1::ReduceArrayRequest array;
    *array.mutable_spec() = header_.header().spec();
    array.set_data(std::string(bytes, 'x'));
    v1::ReduceArrayResponse response;
    grpc::ClientContext context;
    EXPECT_EQ(Reason(stub_->ReduceArray(&context, array, &response)), "MESSAGE_TOO_LARGE");
  }
  // Far beyond the limit gRPC itself rejects the message.
  const grpc::Status status = Reduce({header_, Chunk(std::vector<char>(kMaxTransportBytes))}, false);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_FALSE(response_.has_reduction());
  ExpectUnharmed();
}

TEST_F(RpcBadInputTest, UnaryCallsWithoutAWholeRequest) {
  for (const char* method : {"ReduceArray", "Merge", "GetServerInfo"}) {
    RawCall ended(channel_, std::string("/warpfold.v1.ReductionService/") + method);
    ended.WritesDone();
    EXPECT_EQ(Reason(ended.Finish()), "BAD_MESSAGE") << method;
    RawCall garbled(channel_, std::string("/warpfold.v1.ReductionService/") + method);
    garbled.Write("\xff\xff\xff");
    EXPECT_EQ(Reason(garbled.Finish()), "BAD_MESSAGE") << method;
  }
  RawCall health(channel_, "/grpc.health.v1.Health/Check");
  health.Write("\xff\xff\xff");
  EXPECT_EQ(Reason(health.Finish()), "BAD_MESSAGE");
  // Two million empty submessages in 4 MiB, of which protobuf would make 185 MiB.
  std::string states;
  for (int i = 0; i < 2'000'000; ++i) states += std::string("\x12\x00", 2);
  RawCall bomb(channel_, "/warpfold.v1.ReductionService/Merge");
  bomb.Write(states);
  EXPECT_EQ(Reason(bomb.Finish()), "BAD_MESSAGE");
  ExpectUnharmed();
}

TEST_F(RpcBadInputTest, BytesThatAreNoMessage) {
  for (const std::string& garbage : {std::string("\xff\xff\xff", 3), std::string("hello"), std::string()}) {
    for (const bool after_header : {false, true}) {
      RawCall call(channel_, kReduce);
      if (after_header) call.Write(header_.SerializeAsString());
      call.Write(garbage);
      const grpc::Status status = call.Finish();
      EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
      EXPECT_EQ(Reason(status), "BAD_MESSAGE");
      ExpectUnharmed();
    }
  }
}

TEST_F(RpcBadInputTest, CompressedMessagesAreRefused) {
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    const Writer writer = stub_->Reduce(&context, &response_);
    for (const v1::ReduceRequest& request : GoodRequests()) {
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), grpc::UNIMPLEMENTED);
    ExpectUnharmed();
  }
}

TEST_F(RpcBadInputTest, ShortMethods) {
  const auto reduce_array = [&](const v1::ReduceArrayRequest& request) {
    grpc::ClientContext context;
    v1::ReduceArrayResponse response;
    return stub_->ReduceArray(&context, request, &response);
  };
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = header_.header().spec();
  request.set_data("abcde");
  EXPECT_EQ(Reason(reduce_array(request)), "BAD_MESSAGE");
  request.mutable_spec()->clear_operators();
  EXPECT_EQ(Reason(reduce_array(request)), "BAD_HEADER");

  grpc::ClientContext context;
  v1::MergeRequest merge;
  v1::MergeResponse merged;
  *merge.mutable_spec() = header_.header().spec();
  merge.add_states()->set_element_count(7);
  const grpc::Status status = stub_->Merge(&context, merge, &merged);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(status), "BAD_STATE");
  ExpectUnharmed();
}

}  // namespace
}  // namespace warpfold::server
