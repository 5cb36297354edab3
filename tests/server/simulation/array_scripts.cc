// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation/array_scripts.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "proto/crc32c.h"
#include "tests/server/requests.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kElementBytes = 4;

std::string RandomOwner(Random& random) { return absl::StrCat("owner ", Below(random, 3)); }

// A Reduce chunk as a message of PutArray.
v1::PutArrayRequest PutChunk(std::span<const std::byte> piece) {
  v1::PutArrayRequest request;
  *request.mutable_chunk() = Chunk(piece.data(), piece.size()).chunk();
  return request;
}

std::vector<v1::PutArrayRequest> ChunksOf(Random& random, std::span<const std::byte> data) {
  std::vector<std::size_t> cuts(Below(random, 4));
  for (std::size_t& cut : cuts) cut = Below(random, data.size() + 1);
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(data.size());
  std::vector<v1::PutArrayRequest> chunks;
  for (std::size_t i = 0, begin = 0; i < cuts.size(); begin = cuts[i++]) {
    chunks.push_back(PutChunk(data.subspan(begin, cuts[i] - begin)));
  }
  return chunks;
}

Script RequestScript(const char* method, const google::protobuf::Message& request) {
  Script script;
  script.method = absl::StrCat("/warpfold.v1.ArrayService/", method);
  script.kind = Admission::Kind::kSmall;
  script.lines.push_back({request.SerializeAsString()});
  return script;
}

}  // namespace

Script PutScript(Random& random, std::uint64_t identity) {
  Script script;
  script.method = "/warpfold.v1.ArrayService/PutArray";
  const bool floats = OneIn(random, 2);
  // What another client has put, or what lay there before, is not a prefix of it.
  const auto all = ArrayData(floats).subspan((1 + identity) * 64 * kElementBytes);
  const std::size_t elements = Below(random, OneIn(random, 3) ? 10 : all.size() / kElementBytes);
  const std::span<const std::byte> data = all.first(elements * kElementBytes);
  script.kept = {.token = "",
                 .owner = RandomOwner(random),
                 .bytes = {reinterpret_cast<const char*>(data.data()), data.size()},
                 .time_to_live = OneIn(random, 3) ? absl::Seconds(1 + Below(random, 30)) : absl::Duration()};
  v1::PutArrayRequest header;
  header.mutable_header()->set_element_type(floats ? v1::ELEMENT_TYPE_FLOAT32 : v1::ELEMENT_TYPE_INT32);
  header.mutable_header()->set_element_count(elements);
  header.mutable_header()->set_owner(script.kept.owner);
  header.mutable_header()->set_time_to_live_seconds(
      static_cast<std::uint32_t>(absl::ToInt64Seconds(script.kept.time_to_live)));
  std::vector<v1::PutArrayRequest> chunks = ChunksOf(random, data);
  v1::PutArrayRequest commit;
  *commit.mutable_commit() = Commit(elements, data.size()).commit();
  const std::size_t fault = Below(random, 10);
  if (fault == 0) {
    commit.mutable_commit()->set_element_count(elements + 1);
    script.reason = "COUNT_MISMATCH";
  } else if (fault == 1) {
    v1::ReduceChunk& chunk = *chunks[Below(random, chunks.size())].mutable_chunk();
    chunk.set_crc32c(proto::ComputeCrc32c(AsBytes(chunk.data())) ^ 1);
    script.reason = "CHECKSUM_MISMATCH";
  }
  script.lines.push_back({header.SerializeAsString()});
  for (const v1::PutArrayRequest& chunk : chunks) {
    const std::size_t bytes = chunk.chunk().data().size();
    script.lines.push_back({chunk.SerializeAsString(), bytes > 0, bytes});
  }
  if (fault == 2) {
    script.reason = "NO_COMMIT";
  } else {
    script.lines.push_back({commit.SerializeAsString()});
  }
  return script;
}

Script ArrayServiceScript(Random& random, const KeptArrays& kept) {
  const std::string& token = OneIn(random, 2) ? kept.resident_ints : kept.resident_floats;
  Script script;
  if (OneIn(random, 2)) {
    const std::string owner = OneIn(random, 2) ? RandomOwner(random) : "";
    v1::ListArraysRequest request;
    request.set_owner(owner);
    script = RequestScript("ListArrays", request);
    script.kept.owner = owner;
  } else if (OneIn(random, 2)) {
    v1::GetArrayRequest request;
    request.set_token(token);
    script = RequestScript("GetArray", request);
    script.kept.token = token;
  } else {
    v1::DeleteArrayRequest request;
    request.set_token(token);
    script = RequestScript("DeleteArray", request);
    script.kept.token = token;
  }
  if (OneIn(random, 10)) {
    script.lines.clear();
    script.reason = "BAD_MESSAGE";
  }
  return script;
}

Script ReflectionScript(Random& random) {
  Script script;
  script.method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  script.kind = Admission::Kind::kSmall;
  for (std::size_t i = Below(random, 4); i > 0; --i) {
    grpc::reflection::v1::ServerReflectionRequest request;
    if (OneIn(random, 2)) {
      request.set_list_services("*");
    } else {
      request.set_file_containing_symbol("warpfold.v1.Nothing");
    }
    script.lines.push_back({request.SerializeAsString()});
  }
  if (OneIn(random, 10)) {
    script.lines.push_back({"\x7a"});  // a length is missing
    script.reason = "BAD_MESSAGE";
  } else if (OneIn(random, 6)) {
    script.takes = Below(random, 3);
  }
  return script;
}

}  // namespace warpfold::server
