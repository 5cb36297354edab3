// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds requests, and cuts them into slices.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/core/wire/byte_slices.h"
#include "server/core/wire/message.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

inline v1::ReduceRequest Header(std::vector<v1::Operator> operators,
                                v1::ElementType type = v1::ELEMENT_TYPE_INT32) {
  v1::ReduceRequest request;
  v1::ReductionSpec& spec = *request.mutable_header()->mutable_spec();
  for (const v1::Operator op : operators) spec.add_operators(op);
  spec.set_element_type(type);
  return request;
}

inline v1::ReduceRequest Chunk(const void* data, std::size_t bytes) {
  v1::ReduceRequest request;
  request.mutable_chunk()->set_data(data, bytes);
  return request;
}

template <typename T>
v1::ReduceRequest Chunk(const std::vector<T>& elements) {
  return Chunk(elements.data(), elements.size() * sizeof(T));
}

inline v1::ReduceRequest Commit(std::uint64_t element_count, std::uint64_t byte_count) {
  v1::ReduceRequest request;
  request.mutable_commit()->set_element_count(element_count);
  request.mutable_commit()->set_byte_count(byte_count);
  return request;
}

inline ByteSlice AsBytes(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

// `bytes` cut at `cuts`, which ascend.
inline std::vector<ByteSlice> Cut(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  std::vector<ByteSlice> slices;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    slices.push_back(AsBytes(bytes).subspan(begin, cut - begin));
    begin = cut;
  }
  slices.push_back(AsBytes(bytes).subspan(begin));
  return slices;
}

// `bytes` as they arrive: in slices that end at `cuts`.
inline Message MessageOf(std::string bytes, const std::vector<std::size_t>& cuts = {}) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  std::vector<ByteSlice> slices = Cut(*owner, cuts);
  return {.slices = std::move(slices), .owner = std::move(owner)};
}

inline Message MessageOf(const google::protobuf::Message& request) {
  return MessageOf(request.SerializeAsString());
}

}  // namespace warpfold::server
