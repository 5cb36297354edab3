// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Any bytes, in slices, as each request that is read in place: accepted if protobuf accepts them, with what
// protobuf finds in them, and otherwise rejected.
#include "tests/server/requests.h"

#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <variant>

#include "kernels/error.h"
#include "server/core/wire/request_parser.h"
#include "tests/fuzz/input.h"
#include "tests/server/quiet_protobuf.h"

namespace warpfold::server {
namespace {

using fuzz::Expect;

std::string Flat(ByteSlices slices) {
  std::string flat;
  for (const ByteSlice slice : slices) flat.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  return flat;
}

template <class Request>
void Put(const ParsedChunk& chunk, Request* request) {
  if (chunk.crc32c.has_value()) request->mutable_chunk()->set_crc32c(*chunk.crc32c);
  request->mutable_chunk()->set_data(Flat(chunk.data));
}
template <class Request, class Commit>
requires std::is_same_v<Commit, v1::ReduceCommit> || std::is_same_v<Commit, v1::SegmentsCommit>
void Put(const Commit& commit, Request* request) { *request->mutable_commit() = commit; }
void Put(const v1::SegmentLengths& lengths, v1::ReduceSegmentsRequest* request) {
  *request->mutable_lengths() = lengths;
}
template <class Request, class Header>
requires std::is_same_v<Header, std::remove_cvref_t<decltype(std::declval<Request>().header())>>
void Put(const Header& header, Request* request) { *request->mutable_header() = header; }

template <class... Alternatives, class Request>
void Rebuild(const std::variant<Alternatives...>& parsed, Request* request) {
  std::visit([&](const auto& part) { Put(part, request); }, parsed);
}
void Rebuild(const ParsedArray& parsed, v1::ReduceArrayRequest* request) {
  *request = parsed.request;
  request->set_data(Flat(parsed.data.data));
  request->mutable_spec();  // an absent spec means nothing
}

bool IsWhole(const v1::ReduceArrayRequest& /*request*/) { return true; }
template <class Request>
bool IsWhole(const Request& request) {
  return request.message_case() != Request::MESSAGE_NOT_SET;
}

template <class Request, class Parse>
void CompareWithProtobuf(const std::string& bytes, ByteSlices slices, Parse parse) {
  Request reference;
  const bool legal = reference.ParseFromString(bytes) && IsWhole(reference);
  const auto parsed = parse(slices);
  Expect(parsed.ok() == legal, "taken where protobuf takes it");
  if (!legal)
    return Expect(kernels::ErrorReason(parsed.status()) == "BAD_MESSAGE", "refused with its reason");
  Request request;
  Rebuild(*parsed, &request);
  if constexpr (std::is_same_v<Request, v1::ReduceArrayRequest>) reference.mutable_spec();
  request.DiscardUnknownFields();
  reference.DiscardUnknownFields();
  Expect(google::protobuf::util::MessageDifferencer::Equals(request, reference), "read as protobuf reads it");
}

}  // namespace
}  // namespace warpfold::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace server = warpfold::server;
  namespace v1 = warpfold::v1;
  static const server::QuietProtobuf kQuiet;
  if (size > 64 << 10) return 0;  // beyond this, limits differ from protobuf's
  warpfold::fuzz::Input input(data, size);
  const std::uint64_t method = input.Below(4);
  const std::vector<std::size_t> cuts = input.Cuts(size);
  const std::string bytes = input.Rest();
  if (!cuts.empty() && cuts.back() > bytes.size()) return 0;
  const auto slices = server::Cut(bytes, cuts);
  switch (method) {
    case 0:
      server::CompareWithProtobuf<v1::ReduceRequest>(bytes, slices, server::ParseReduceRequest);
      break;
    case 1:
      server::CompareWithProtobuf<v1::PutArrayRequest>(bytes, slices, server::ParsePutArrayRequest);
      break;
    case 2:
      server::CompareWithProtobuf<v1::ReduceSegmentsRequest>(bytes, slices,
                                                             server::ParseReduceSegmentsRequest);
      break;
    default:
      server::CompareWithProtobuf<v1::ReduceArrayRequest>(bytes, slices, server::ParseReduceArrayRequest);
  }
  return 0;
}
