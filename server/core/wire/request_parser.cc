// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/request_parser.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/bad_request.h"
#include "server/core/limits.h"
#include "server/core/wire/wire_guard.h"
#include "server/core/wire/wire_reader.h"

namespace warpfold::server {
namespace {

// Field number 15 of wire type 2: the chunk of a request, as well as ReduceChunk.data.
constexpr auto kLengthDelimited15 = std::byte{0x7a};
// Field number 1 of wire type 5, ReduceChunk.crc32c.
constexpr auto kFixed32Field1 = std::byte{0x0d};
// Field numbers 1 and 2 of wire type 2: the spec and the request_id of a ReduceArrayRequest.
constexpr auto kLengthDelimited1 = std::byte{0x0a};
constexpr auto kLengthDelimited2 = std::byte{0x12};

// The maximum that can come before the data: two tags with lengths of at most 5 bytes, and the checksum.
constexpr std::size_t kMaxPrefixBytes = 6 + 5 + 6;

// The first bytes of a message in one piece.
class Prefix {
 public:
  explicit Prefix(ByteSlices message) {
    for (const ByteSlice slice : message) {
      const std::size_t n = std::min(slice.size(), bytes_.size() - size_);
      std::copy_n(slice.begin(), n, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
      size_ += n;
      if (size_ == bytes_.size()) break;
    }
  }

  ByteSlice bytes() const { return ByteSlice(bytes_).first(size_); }

 private:
  std::array<std::byte, kMaxPrefixBytes> bytes_ = {};
  std::size_t size_ = 0;
};

// The message from `offset` on.
std::vector<ByteSlice> Tail(ByteSlices message, std::uint64_t offset) {
  std::vector<ByteSlice> tail;
  tail.reserve(message.size());
  for (const ByteSlice slice : message) {
    const std::uint64_t skipped = std::min<std::uint64_t>(offset, slice.size());
    offset -= skipped;
    if (skipped < slice.size()) tail.push_back(slice.subspan(skipped));
  }
  return tail;
}

// The first `size` bytes of the message.
std::vector<ByteSlice> Head(ByteSlices message, std::uint64_t size) {
  std::vector<ByteSlice> head;
  for (const ByteSlice slice : message) {
    head.push_back(slice.first(std::min<std::uint64_t>(size, slice.size())));
    size -= head.back().size();
    if (size == 0) break;
  }
  return head;
}

// Reads a chunk whose data reaches to the end of the message; false for any other layout.
bool ParseChunkInPlace(ByteSlices message, std::uint64_t total_bytes, ParsedChunk* chunk) {
  const Prefix bytes(message);
  WireReader prefix(bytes.bytes());
  std::uint64_t length = 0;
  if (!prefix.Skip(kLengthDelimited15) || !prefix.ReadLength(&length)) return false;
  if (length != total_bytes - prefix.position()) return false;
  if (prefix.Skip(kFixed32Field1)) {
    std::uint32_t crc32c = 0;
    if (!prefix.ReadFixed32(&crc32c)) return false;
    chunk->crc32c = crc32c;
  }
  if (prefix.position() == total_bytes) return true;  // no data
  if (!prefix.Skip(kLengthDelimited15) || !prefix.ReadLength(&length)) return false;
  if (length != total_bytes - prefix.position()) return false;
  chunk->data = Tail(message, prefix.position());
  return true;
}

absl::Status MessageTooLarge() {
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kMessageTooLarge,
                        absl::StrCat("a message's payload exceeds max_message_bytes = ", kMaxPayloadBytes),
                        {{"limit", "max_message_bytes"}, {"value", std::to_string(kMaxPayloadBytes)}});
}

// If a message is too large to be parsed, nobody knows how much of it is payload.
absl::Status WholeTooLarge() {
  constexpr std::uint64_t kMaxBytes = kMaxPayloadBytes + kMaxFramingBytes;
  return kernels::Error(
      absl::StatusCode::kResourceExhausted, reason::kMessageTooLarge,
      absl::StrCat("a message exceeds ", kMaxBytes, " bytes: max_message_bytes = ", kMaxPayloadBytes,
                   ", and ", kMaxFramingBytes, " for what surrounds the payload"),
      {{"limit", "message_bytes"}, {"value", absl::StrCat(kMaxBytes)}});
}

// Checks the size of a message, of which `data_bytes` are of an array.
absl::Status CheckSize(std::uint64_t data_bytes, std::uint64_t total_bytes) {
  if (data_bytes > kMaxPayloadBytes) return MessageTooLarge();
  if (total_bytes - data_bytes <= kMaxFramingBytes) return absl::OkStatus();
  return kernels::Error(
      absl::StatusCode::kResourceExhausted, reason::kMessageTooLarge,
      absl::StrCat("what a message has beside its data exceeds ", kMaxFramingBytes, " bytes"),
      {{"limit", "framing_bytes"}, {"value", absl::StrCat(kMaxFramingBytes)}});
}

std::string Flatten(ByteSlices message) {
  std::string flat;
  flat.reserve(TotalBytes(message));
  for (const ByteSlice slice : message) {
    flat.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  }
  return flat;
}

// `data` is a field of `owner`.
ParsedChunk ChunkOf(const std::string& data, std::shared_ptr<const google::protobuf::Message> owner) {
  ParsedChunk chunk;
  if (!data.empty()) chunk.data.push_back(std::as_bytes(std::span(data)));
  chunk.owned = std::move(owner);
  return chunk;
}

ParsedChunk ChunkOf(const v1::ReduceChunk& chunk, std::shared_ptr<const google::protobuf::Message> owner) {
  ParsedChunk parsed = ChunkOf(chunk.data(), std::move(owner));
  if (chunk.has_crc32c()) parsed.crc32c = chunk.crc32c();
  return parsed;
}

// The contents of `request`, a message of `total_bytes`.
template <class Parsed, class Request>
absl::StatusOr<Parsed> Unpack(const std::shared_ptr<Request>& request, std::uint64_t total_bytes) {
  std::uint64_t data_bytes = request->chunk().data().size();
  if constexpr (requires { request->lengths(); }) data_bytes += request->lengths().lengths().size();
  if (absl::Status status = CheckSize(data_bytes, total_bytes); !status.ok()) return status;
  if (request->has_header()) return Parsed(std::move(*request->mutable_header()));
  if (request->has_commit()) return Parsed(std::move(*request->mutable_commit()));
  if (request->has_chunk()) return Parsed(ChunkOf(request->chunk(), request));
  if constexpr (requires { request->lengths(); }) {
    if (request->has_lengths()) return Parsed(std::move(*request->mutable_lengths()));
  }
  return BadMessage(absl::StrCat("a ", request->GetDescriptor()->name(), " that carries nothing"));
}

// All requests of streams have the same fields, except for the header, and for lengths if there are segments.
template <class Parsed, class Request>
absl::StatusOr<Parsed> ParseStreamRequest(ByteSlices message) {
  const std::uint64_t total_bytes = TotalBytes(message);
  ParsedChunk chunk;
  if (ParseChunkInPlace(message, total_bytes, &chunk)) {
    if (absl::Status status = CheckSize(TotalBytes(chunk.data), total_bytes); !status.ok()) return status;
    return Parsed(std::move(chunk));
  }
  auto request = std::make_shared<Request>();
  if (absl::Status status = ParseWhole(message, kMaxStreamFields, request.get()); !status.ok()) {
    return status;
  }
  return Unpack<Parsed>(request, total_bytes);
}

// Where the data of a ReduceArrayRequest begin, if they are the last field, extend to the end, and have no
// more than `most_before` bytes before them.
std::optional<std::uint64_t> FindTrailingData(ByteSlices message, std::uint64_t total_bytes,
                                              std::uint64_t most_before, std::string* before) {
  const std::string head = Flatten(Head(message, std::min(total_bytes, most_before)));
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(head.data()),
                                            static_cast<int>(head.size()));
  while (true) {
    const int begin = in.CurrentPosition();
    const std::uint32_t tag = in.ReadTag();
    if (tag == std::to_integer<std::uint32_t>(kLengthDelimited15)) {
      // A number that is longer than a length is left for protobuf to reject.
      constexpr int kMaxLengthBytes = 5;
      const int length_begin = in.CurrentPosition();
      std::uint64_t length = 0;
      if (!in.ReadVarint64(&length) || in.CurrentPosition() - length_begin > kMaxLengthBytes)
        return std::nullopt;
      const auto data = static_cast<std::uint64_t>(in.CurrentPosition());
      if (data + length != total_bytes) return std::nullopt;
      *before = head.substr(0, begin);
      return data;
    }
    if (tag == 0 || !google::protobuf::internal::WireFormatLite::SkipField(&in, tag)) return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<ParsedRequest<v1::ReduceHeader>> ParseReduceRequest(ByteSlices message) {
  return ParseStreamRequest<ParsedRequest<v1::ReduceHeader>, v1::ReduceRequest>(message);
}

absl::StatusOr<ParsedRequest<v1::PutArrayHeader>> ParsePutArrayRequest(ByteSlices message) {
  return ParseStreamRequest<ParsedRequest<v1::PutArrayHeader>, v1::PutArrayRequest>(message);
}

absl::StatusOr<ParsedSegmentsRequest> ParseReduceSegmentsRequest(ByteSlices message) {
  return ParseStreamRequest<ParsedSegmentsRequest, v1::ReduceSegmentsRequest>(message);
}

std::optional<PlainArray> ReadPlainArray(ByteSlices message) {
  if (message.empty()) return std::nullopt;
  PlainArray array;
  WireReader head(message.front());
  std::uint64_t length = 0;
  if (!head.Skip(kLengthDelimited1) || !head.ReadLength(&length) || !head.ReadText(length, &array.spec)) {
    return std::nullopt;
  }
  if (head.Skip(kLengthDelimited2) &&
      (!head.ReadLength(&length) || !head.ReadText(length, &array.request_id))) {
    return std::nullopt;
  }
  if (!head.Skip(kLengthDelimited15) || !head.ReadLength(&length)) return std::nullopt;
  if (length != TotalBytes(message) - head.position()) return std::nullopt;
  if (length > kMaxPayloadBytes || head.position() > kMaxFramingBytes) return std::nullopt;
  // Other texts may be invalid, which protobuf rejects.
  if (!std::all_of(array.request_id.begin(), array.request_id.end(), absl::ascii_isprint))
    return std::nullopt;
  array.data = Tail(message, head.position());
  return array;
}

absl::StatusOr<ParsedArray> ParseReduceArrayRequest(ByteSlices message) {
  const std::uint64_t total_bytes = TotalBytes(message);
  ParsedArray array;
  std::string before;
  // Mostly there is next to nothing before the data.
  constexpr std::uint64_t kMostlyBefore = 256;
  auto data = FindTrailingData(message, total_bytes, kMostlyBefore, &before);
  if (!data.has_value()) data = FindTrailingData(message, total_bytes, kMaxFramingBytes, &before);
  if (data.has_value()) {
    array.data.data = Tail(message, *data);
    const std::vector<ByteSlice> rest = {std::as_bytes(std::span(before))};
    if (absl::Status status = ParseWhole(rest, kMaxStreamFields, &array.request); !status.ok()) {
      return status;
    }
  } else {
    auto request = std::make_shared<v1::ReduceArrayRequest>();
    if (absl::Status status = ParseWhole(message, kMaxStreamFields, request.get()); !status.ok()) {
      return status;
    }
    array.request.mutable_spec()->Swap(request->mutable_spec());
    array.request.set_request_id(request->request_id());
    array.data = ChunkOf(request->data(), request);
  }
  if (absl::Status status = CheckSize(TotalBytes(array.data.data), total_bytes); !status.ok()) return status;
  return array;
}

absl::Status ParseSmall(ByteSlices message, google::protobuf::Message* request) {
  if (TotalBytes(message) <= kMaxSmallRequestBytes) return ParseWhole(message, kMaxStreamFields, request);
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kMessageTooLarge,
                        absl::StrCat("a request without an array exceeds ", kMaxSmallRequestBytes, " bytes"),
                        {{"limit", "request_bytes"}, {"value", absl::StrCat(kMaxSmallRequestBytes)}});
}

absl::Status ParseWhole(ByteSlices message, std::size_t most_fields, google::protobuf::Message* request) {
  if (TotalBytes(message) > kMaxPayloadBytes + kMaxFramingBytes) return WholeTooLarge();
  const std::string flat = Flatten(message);
  const google::protobuf::Descriptor& type = *request->GetDescriptor();
  const auto no_message = [&type] { return BadMessage(absl::StrCat("a message is not a ", type.name())); };
  // Each field has at least one byte.
  if (flat.size() > most_fields) {
    const std::optional<std::size_t> fields = CountFields(flat, type, most_fields);
    if (!fields.has_value()) return no_message();
    if (*fields > most_fields) {
      return BadMessage(absl::StrCat("a ", type.name(), " has more than ", most_fields, " fields"));
    }
  }
  if (!request->ParseFromString(flat)) return no_message();
  return absl::OkStatus();
}

}  // namespace warpfold::server
