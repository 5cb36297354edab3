// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The reflection service's protocol, and what it must not reveal. tests/python/tools_test.py uses it with a
// real tool.
#include "server/core/wire/reflection.h"

#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

constexpr char kMethod[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr char kOldMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

ServerReflectionRequest Symbol(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol(name);
  return request;
}

TEST(ReflectionTest, AFileComesBehindItsImports) {
  const ServerReflectionResponse response = Reflect(Symbol("google.rpc.Status"));
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"google/protobuf/any.proto", "google/protobuf/duration.proto",
                                             "google/rpc/status.proto"}));
}

TEST(ReflectionTest, WhatIsNotServedIsNotTold) {
  // The second is linked, but belongs to no service.
  for (const char* name :
       {"", "no.Such", "warpfold.v1.MemoryRequest", "google.protobuf.FileDescriptorProto"}) {
    const ServerReflectionResponse response = Reflect(Symbol(name));
    EXPECT_EQ(response.error_response().error_code(), 5) << name;
    EXPECT_EQ(response.original_request().file_containing_symbol(), name);
  }
  ServerReflectionRequest request;
  EXPECT_EQ(Reflect(request).error_response().error_code(), 3);
  request.set_file_by_filename("/etc/passwd");
  EXPECT_EQ(Reflect(request).error_response().error_code(), 5);
  request.set_all_extension_numbers_of_type("warpfold.v1.ReduceRequest");
  EXPECT_EQ(Reflect(request).error_response().error_code(), 5);
  request.mutable_file_containing_extension()->set_containing_type("warpfold.v1.ReduceRequest");
  EXPECT_EQ(Reflect(request).error_response().error_code(), 5);
}

class ReflectionRpcTest : public RpcTest {
 protected:
  ReflectionRpcTest() { service_.reflection = true; }
};

TEST_F(ReflectionRpcTest, AnswersOneRequestAfterTheOther) {
  for (const char* method : {kMethod, kOldMethod}) {
    RawCall call(channel_, method);
    for (const char* name : {"warpfold.v1.ReduceRequest", "no.Such", "grpc.health.v1.Health"}) {
      ASSERT_TRUE(call.Write(Symbol(name).SerializeAsString()));
      std::string bytes;
      ASSERT_TRUE(call.Read(&bytes));
      ServerReflectionResponse response;
      ASSERT_TRUE(response.ParseFromString(bytes));
      EXPECT_EQ(response.original_request().file_containing_symbol(), name);
    }
    call.WritesDone();
    EXPECT_TRUE(call.Finish().ok());
  }
}

TEST_F(ReflectionRpcTest, RefusesWhatIsNoRequest) {
  RawCall call(channel_, kMethod);
  call.Write("\xff");
  EXPECT_EQ(Reason(call.Finish()), "BAD_MESSAGE");
  ExpectUnharmed();
}

TEST_F(ReflectionRpcTest, EndsWhoSaysNothing) {
  RawCall call(channel_, kMethod);
  ASSERT_TRUE(call.Write(Symbol("no.Such").SerializeAsString()));
  std::string bytes;
  ASSERT_TRUE(call.Read(&bytes));
  EXPECT_EQ(Reason(WhileTimePasses(11, [&] { return call.Finish(); })), "IDLE");
}

TEST_F(ReflectionRpcTest, ACallWithoutRequestsIsNoError) {
  RawCall call(channel_, kMethod);
  call.WritesDone();
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(RpcTest, ThereIsNoReflectionWithoutTheFlag) {
  RawCall call(channel_, kMethod);
  EXPECT_EQ(Reason(call.Finish()), "UNKNOWN_METHOD");
}

}  // namespace
}  // namespace warpfold::server
