// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that a server keeps, over gRPC: put, reduced in parts, listed, deleted, and forgotten in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/rpc/elsewhere_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(ElsewhereTest, AnArrayThatWasPutIsReducedInParts) {
  ASSERT_TRUE(Put(Iota(100'000), 100'000).ok());
  EXPECT_EQ(put_.token().size(), kTokenBytes);
  EXPECT_EQ(put_.array().byte_count(), 400'000u);
  for (const auto& [first, count] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 100'000}, {1, 99'999}, {777, 1}, {5, 0}}) {
    const grpc::Status status = Reduce({At(put_.token(), 4 * first, count)});
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(Value(), SumOfIota(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)));
    EXPECT_EQ(response_.reduction().element_count(), count);
  }
  ASSERT_EQ(List().arrays_size(), 1);
  EXPECT_EQ(Get(put_.token()).element_count(), 100'000u);
  EXPECT_EQ(Get(put_.token()).element_type(), v1::ELEMENT_TYPE_INT32);
  EXPECT_EQ(Get("nothing").element_count(), 0u);
  EXPECT_EQ(List().arrays(0).owner(), "tests");
  EXPECT_EQ(List().capacity_bytes(), kPoolBytes);
  EXPECT_TRUE(Delete(put_.token()).ok());
  EXPECT_EQ(List().free_bytes(), kPoolBytes);
  EXPECT_EQ(Reason(Reduce({At(put_.token(), 0, 1)})), "UNKNOWN_MEMORY");
  EXPECT_EQ(Reason(Delete(put_.token())), "UNKNOWN_MEMORY");
  ExpectUnharmed();
}

TEST_F(ElsewhereTest, AnArrayThatDoesNotMatchItsHeaderIsNotKept) {
  for (const std::uint64_t announced : {999, 1001}) {
    const grpc::Status status = Put(Iota(1000), announced);
    EXPECT_EQ(Reason(status), "COUNT_MISMATCH");
    EXPECT_EQ(status.error_message(), absl::StrCat("element_count says ", announced, ", but 1000 arrived"));
  }
  EXPECT_EQ(Reason(Put(Iota(1000), kPoolBytes / 4 + 1)), "ARRAY_TOO_LARGE");
  EXPECT_EQ(List().arrays_size(), 0);
  Await([&] { return List().free_bytes() == kPoolBytes; });
  ExpectUnharmed();
}

// A list for an owner that no array can have would be empty, as if the arrays were gone.
TEST_F(ElsewhereTest, WhatIsNoOwnerForPutsIsNoneForLists) {
  for (const std::string& owner : {std::string(128, 'x'), std::string(129, 'x'), std::string("two\nlines"),
                                   std::string("\xc3\xa9"), std::string()}) {
    v1::PutArrayRequest header = PutHeader(1);
    header.mutable_header()->set_owner(owner);
    const std::string of_put = Reason(Put({1}, header));
    grpc::ClientContext context;
    v1::ListArraysRequest request;
    request.set_owner(owner);
    v1::ListArraysResponse response;
    const grpc::Status status = arrays_->ListArrays(&context, request, &response);
    EXPECT_EQ(Reason(status), of_put) << owner;
    EXPECT_EQ(response.arrays_size() > 0, of_put.empty()) << owner;
    const bool is_owner = owner.empty() || owner == std::string(128, 'x');
    EXPECT_EQ(of_put, is_owner ? "" : "BAD_HEADER") << owner;
  }
}

TEST_F(ElsewhereTest, PutsThatBreakAreForgotten) {
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const auto writer = arrays_->PutArray(&context, &put_);
    writer->Write(PutHeader(kPoolBytes / 8));
    v1::PutArrayRequest chunk;
    chunk.mutable_chunk()->set_data(std::string(100'000, 'x'));
    writer->Write(chunk);
    context.TryCancel();
    writer->Finish();
  }
  Await([&] { return List().free_bytes() == kPoolBytes; });
  ExpectUnharmed();
}

// A header alone takes room, whatever owner it names.
TEST_F(ElsewhereTest, WhoSendsHeadersAloneLeavesRoomForOthers) {
  const std::uint64_t all = kPoolBytes / 4;
  grpc::ClientContext context;
  v1::PutArrayResponse ignored;
  const auto silent = arrays_->PutArray(&context, &ignored);
  silent->Write(PutHeader(all - all / 8));
  Await([&] { return List().free_bytes() == kPoolBytes / 8; });
  v1::PutArrayRequest header = PutHeader(1);
  header.mutable_header()->set_owner("another name of the same client");
  EXPECT_EQ(Reason(Put({1}, header)), "RESIDENT_FULL");
  const auto others = v1::ArrayService::NewStub(server_->InProcessChannel({}));
  grpc::ClientContext other_context;
  v1::PutArrayResponse put;
  const auto other = others->PutArray(&other_context, &put);
  header.mutable_header()->set_element_count(0);
  v1::PutArrayRequest commit;
  commit.mutable_commit();
  EXPECT_TRUE(other->Write(header) && other->Write(commit) && other->WritesDone());
  EXPECT_TRUE(other->Finish().ok());
  const grpc::Status status = WhileTimePasses(6, [&] { return silent->Finish(); });
  EXPECT_EQ(Reason(status), "IDLE");
  EXPECT_TRUE(Put(Iota(1000), 1000).ok());
}

// Each is rejected by name, and nothing stays.
TEST_F(ElsewhereTest, BadReferences) {
  ASSERT_TRUE(Put(Iota(1000), 1000).ok());
  const std::string token = put_.token();
  const auto reason_of = [&](const v1::ReduceRequest& request) { return Reason(Reduce({request})); };
  EXPECT_EQ(reason_of(At("", 0, 1)), "UNKNOWN_MEMORY");
  EXPECT_EQ(reason_of(At(std::string(16, 'x'), 0, 1)), "UNKNOWN_MEMORY");
  EXPECT_EQ(reason_of(At(token, 0, 1001)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 4, 1000)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 4001, 0)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 2, 1)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, ~std::uint64_t{0} - 3, 2)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 0, ~std::uint64_t{0} / 4 + 2)), "BAD_HEADER");
  EXPECT_EQ(reason_of(At(token, 0, 1, v1::ELEMENT_TYPE_FLOAT32)), "BAD_HEADER");
  v1::ReduceRequest checksummed = At(token, 0, 1);
  checksummed.mutable_header()->set_with_crc32c(true);
  EXPECT_EQ(reason_of(checksummed), "BAD_HEADER");
  v1::ReduceRequest counted = At(token, 0, 1);
  counted.mutable_header()->set_expected_element_count(1);
  EXPECT_EQ(reason_of(counted), "BAD_HEADER");
  EXPECT_EQ(Reason(Reduce({At(token, 0, 1000), Chunk(Iota(1))})), "BAD_ORDER");
  EXPECT_EQ(Reason(Reduce({At(token, 0, 1000), Commit(1000, 4000)})), "BAD_ORDER");
  EXPECT_EQ(Reason(Reduce({At(token, 0, 1000), At(token, 0, 1000)})), "BAD_ORDER");
  ExpectUnharmed();
}

// The device reads it until it is done, whatever becomes of the call and of the array.
TEST_F(ElsewhereTest, DeletedWhileItIsRead) {
  ASSERT_TRUE(Put(Iota(100'000), 100'000).ok());
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(At(put_.token(), 0, 100'000));
  writer->WritesDone();
  Await([&] { return backend_.behaviour.working() > 0; });
  EXPECT_TRUE(Delete(put_.token()).ok());
  EXPECT_LT(List().free_bytes(), kPoolBytes) << "freed under a reader";
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
  Await([&] { return server_->in_progress() == 0; });
  EXPECT_LT(List().free_bytes(), kPoolBytes) << "freed under the device";
  backend_.behaviour.SetBlocked(false);
  Await([&] { return List().free_bytes() == kPoolBytes; });
  ExpectUnharmed();
}

// Nothing happens except on the device: the shard has to find out by itself, at first by looking and then by
// a notice.
TEST_F(ElsewhereTest, TheEndOfTheDevicesWorkIsNoticedSoonAndLate) {
  ASSERT_TRUE(Put(Iota(10'000), 10'000).ok());
  for (const int wait_ms : {0, 1, 20}) {
    backend_.behaviour.SetBlocked(true);
    std::thread device([&] {
      Await([&] { return backend_.behaviour.working() > 0; });
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      backend_.behaviour.SetBlocked(false);
    });
    EXPECT_TRUE(Reduce({At(put_.token(), 0, 10'000)}).ok());
    EXPECT_EQ(Value(), SumOfIota(0, 10'000));
    device.join();
  }
  // A notice comes if it took longer than the shard looks; this is so at least for the 20 ms.
  EXPECT_GE(backend_.behaviour.notices, 1);
  EXPECT_LT(backend_.behaviour.notices, backend_.behaviour.starts);
}

TEST_F(ElsewhereTest, ArraysExpireByThemselves) {
  ASSERT_TRUE(Put(Iota(1000), 1000).ok());
  AdvanceClock(3600);
  // Any call makes the shard look at the clock.
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  // Not List, which sweeps by itself.
  Await([&] { return service_.residents.room().free_bytes == kPoolBytes; });
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
}

// It is in use from the header to the end of the reduction, however short its time to live is.
TEST_F(ElsewhereTest, AnArrayThatIsReadDoesNotExpire) {
  constexpr int kSeconds = 2;
  v1::PutArrayRequest header = PutHeader(1000);
  header.mutable_header()->set_time_to_live_seconds(kSeconds);
  ASSERT_TRUE(Put(Iota(1000), header).ok());
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(At(put_.token(), 0, 1000));
  writer->WritesDone();
  Await([&] { return backend_.behaviour.working() > 0; });
  AdvanceClock(2 * kSeconds);
  EXPECT_EQ(Get(put_.token()).expires_in_seconds(), kSeconds);
  backend_.behaviour.SetBlocked(false);
  ASSERT_TRUE(writer->Finish().ok());
  Await([&] { return server_->in_progress() == 0; });
  AdvanceClock(kSeconds - 1);
  EXPECT_EQ(Get(put_.token()).expires_in_seconds(), 1);
  AdvanceClock(1);
  EXPECT_EQ(Reason(Reduce({At(put_.token(), 0, 1000)})), "UNKNOWN_MEMORY");
}

}  // namespace
}  // namespace warpfold::server
