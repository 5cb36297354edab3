// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/request_parser.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {
namespace {

// Field number 15 of wire type 2, for ReduceRequest.chunk as well as for ReduceChunk.data.
constexpr auto kLengthDelimited15 = std::byte{0x7a};
// Field number 1 of wire type 5, ReduceChunk.crc32c.
constexpr auto kFixed32Field1 = std::byte{0x0d};

// The most that can come before the data: two tags with lengths of at most 5 bytes, and the checksum.
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

  std::size_t position() const { return position_; }

  // Each of these reads on only where it returns true.
  bool Skip(std::byte expected) {
    if (position_ == size_ || bytes_[position_] != expected) return false;
    ++position_;
    return true;
  }
  bool ReadLength(std::uint64_t* length) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 5 && position_ + i < size_; ++i) {
      const auto byte = std::to_integer<std::uint64_t>(bytes_[position_ + i]);
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        *length = value;
        position_ += i + 1;
        return true;
      }
    }
    return false;
  }
  bool ReadFixed32(std::uint32_t* value) {
    if (size_ - position_ < sizeof(*value)) return false;
    *value = 0;
    for (std::size_t i = 0; i < sizeof(*value); ++i) {
      *value |= std::to_integer<std::uint32_t>(bytes_[position_ + i]) << (8 * i);
    }
    position_ += sizeof(*value);
    return true;
  }

 private:
  std::array<std::byte, kMaxPrefixBytes> bytes_ = {};
  std::size_t size_ = 0;
  std::size_t position_ = 0;
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

// Reads a chunk whose data reaches to the end of the message; false for any other layout.
bool ParseChunkInPlace(ByteSlices message, std::uint64_t total_bytes, ParsedChunk* chunk) {
  Prefix prefix(message);
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

absl::Status BadMessage(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_MESSAGE", what);
}

// What `request` carries; a chunk keeps it.
absl::StatusOr<ParsedRequest> Unpack(std::unique_ptr<v1::ReduceRequest> request) {
  switch (request->message_case()) {
    case v1::ReduceRequest::kHeader:
      return ParsedRequest(std::move(*request->mutable_header()));
    case v1::ReduceRequest::kCommit:
      return ParsedRequest(std::move(*request->mutable_commit()));
    case v1::ReduceRequest::kChunk: {
      ParsedChunk chunk;
      if (request->chunk().has_crc32c()) chunk.crc32c = request->chunk().crc32c();
      const std::string& data = request->chunk().data();
      if (!data.empty()) chunk.data.push_back(std::as_bytes(std::span(data)));
      chunk.owned = std::move(request);
      return ParsedRequest(std::move(chunk));
    }
    case v1::ReduceRequest::MESSAGE_NOT_SET:
      break;
  }
  return BadMessage("a ReduceRequest carries a header, a chunk or a commit; this one none");
}

}  // namespace

absl::StatusOr<ParsedRequest> ParseRequest(ByteSlices message, std::uint64_t max_message_bytes) {
  const std::uint64_t total_bytes = TotalBytes(message);
  if (total_bytes > max_message_bytes) {
    return kernels::Error(absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
                          absl::StrCat("a message exceeds max_message_bytes = ", max_message_bytes),
                          {{"limit", "max_message_bytes"}, {"value", std::to_string(max_message_bytes)}});
  }
  ParsedChunk chunk;
  if (ParseChunkInPlace(message, total_bytes, &chunk)) return ParsedRequest(std::move(chunk));

  std::string flat;
  flat.reserve(total_bytes);
  for (const ByteSlice slice : message) {
    flat.append(reinterpret_cast<const char*>(slice.data()), slice.size());
  }
  auto request = std::make_unique<v1::ReduceRequest>();
  if (!request->ParseFromString(flat)) return BadMessage("a message is not a ReduceRequest");
  return Unpack(std::move(request));
}

}  // namespace warpfold::server
