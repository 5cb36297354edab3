// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds messages of a Reduce stream, and cuts them into slices.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "server/core/byte_slices.h"
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

}  // namespace warpfold::server
