// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A whole server that keeps arrays, and its service of arrays, for tests of reductions without a transfer.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/server/rpc/rpc_fixture.h"
#include "warpfold/v1/arrays.grpc.pb.h"

namespace warpfold::server {

inline constexpr std::uint64_t kPoolBytes = std::uint64_t{1} << 20;

inline v1::PutArrayRequest PutHeader(std::uint64_t count, v1::ElementType type = v1::ELEMENT_TYPE_INT32) {
  v1::PutArrayRequest request;
  request.mutable_header()->set_element_type(type);
  request.mutable_header()->set_element_count(count);
  request.mutable_header()->set_owner("tests");
  return request;
}

inline std::vector<std::int32_t> Iota(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

inline std::int64_t SumOfIota(std::int64_t first, std::int64_t count) {
  return first * count + count * (count - 1) / 2;
}

class ElsewhereTest : public RpcTest {
 protected:
  ElsewhereTest() {
    service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  }

  // An array of int32, cut into chunks of 30,001 bytes.
  grpc::Status Put(const std::vector<std::int32_t>& values, std::uint64_t announced) {
    return Put(values, PutHeader(announced));
  }
  grpc::Status Put(const std::vector<std::int32_t>& values, const v1::PutArrayRequest& header) {
    grpc::ClientContext context;
    put_.Clear();
    const auto writer = arrays_->PutArray(&context, &put_);
    writer->Write(header);
    const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    for (std::size_t begin = 0; begin < bytes.size(); begin += 30'001) {
      v1::PutArrayRequest request;
      request.mutable_chunk()->set_data(bytes.substr(begin, 30'001));
      if (!writer->Write(request)) break;
    }
    v1::PutArrayRequest request;
    request.mutable_commit()->set_element_count(values.size());
    request.mutable_commit()->set_byte_count(bytes.size());
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::Status Delete(const std::string& token) {
    grpc::ClientContext context;
    v1::DeleteArrayRequest request;
    request.set_token(token);
    v1::DeleteArrayResponse response;
    return arrays_->DeleteArray(&context, request, &response);
  }

  // Empty if there is none.
  v1::ResidentArray Get(const std::string& token) {
    grpc::ClientContext context;
    v1::GetArrayRequest request;
    request.set_token(token);
    v1::GetArrayResponse response;
    const grpc::Status status = arrays_->GetArray(&context, request, &response);
    EXPECT_EQ(Reason(status), status.ok() ? "" : "UNKNOWN_MEMORY");
    return response.array();
  }

  v1::ListArraysResponse List() {
    grpc::ClientContext context;
    v1::ListArraysResponse response;
    EXPECT_TRUE(arrays_->ListArrays(&context, {}, &response).ok());
    return response;
  }

  static v1::ReduceRequest At(const std::string& token, std::uint64_t byte_offset, std::uint64_t count,
                              v1::ElementType type = v1::ELEMENT_TYPE_INT32) {
    v1::ReduceRequest request = Header({v1::OPERATOR_SUM}, type);
    v1::ArrayReference& reference = *request.mutable_header()->mutable_reference();
    reference.set_token(token);
    reference.set_byte_offset(byte_offset);
    reference.set_element_count(count);
    return request;
  }

  std::int64_t Value() const { return response_.reduction().results(0).int64_value(); }

  const std::unique_ptr<v1::ArrayService::Stub> arrays_ = v1::ArrayService::NewStub(channel_);
  v1::PutArrayResponse put_;
};

}  // namespace warpfold::server
