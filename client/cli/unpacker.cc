// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/unpacker.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "client/cli/refuse.h"

namespace warpfold::cli {
namespace {

// zlib counts in 32 bits.
constexpr std::size_t kMaxAtOnce = std::numeric_limits<uInt>::max();
// The window of deflate, without a zlib header before the data.
constexpr int kRawDeflate = -MAX_WBITS;

Bytef* ForZlib(const std::byte* bytes) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes));  // it only reads its input
}

absl::Status WrongLength() { return Refuse("damaged: a member is not as long as its header says"); }

}  // namespace

void Unpacker::Close::operator()(z_stream* stream) const {
  inflateEnd(stream);
  delete stream;
}

Unpacker::Unpacker(const NpzMember& member) : member_(member), rest_(member.bytes) {
  auto stream = std::make_unique<z_stream>();
  if (inflateInit2(stream.get(), kRawDeflate) == Z_OK) stream_.reset(stream.release());
}

absl::StatusOr<std::size_t> Unpacker::Read(std::span<std::byte> buffer) {
  if (stream_ == nullptr) return absl::ResourceExhaustedError("no memory to unpack a member");
  z_stream& stream = *stream_;
  const std::size_t wanted = std::min(buffer.size(), kMaxAtOnce);
  stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
  stream.avail_out = static_cast<uInt>(wanted);
  while (!ended_ && stream.avail_out > 0) {
    if (stream.avail_in == 0) {
      const auto next = rest_.first(std::min(rest_.size(), kMaxAtOnce));
      rest_ = rest_.subspan(next.size());
      stream.next_in = ForZlib(next.data());
      stream.avail_in = static_cast<uInt>(next.size());
    }
    const int code = inflate(&stream, Z_NO_FLUSH);
    ended_ = code == Z_STREAM_END;
    // A member that ends too early is an error, too: zlib then has nothing to read.
    if (code != Z_OK && !ended_) return Refuse("damaged: a compressed member cannot be unpacked");
  }
  const std::size_t size = wanted - stream.avail_out;
  if (size > 0) {
    crc32_ = static_cast<std::uint32_t>(crc32_z(crc32_, reinterpret_cast<Bytef*>(buffer.data()), size));
  }
  position_ += size;
  if (ended_ || position_ > member_.byte_count) {
    if (absl::Status status = CheckEnd(); !status.ok()) return status;
  }
  return size;
}

absl::Status Unpacker::ReadAll(std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const absl::StatusOr<std::size_t> size = Read(buffer);
    if (!size.ok()) return size.status();
    if (*size == 0) return WrongLength();
    buffer = buffer.subspan(*size);
  }
  return absl::OkStatus();
}

absl::Status Unpacker::SkipTo(std::uint64_t position) {
  std::array<std::byte, 4096> skipped;
  while (position_ < position) {
    const std::size_t size = std::min<std::uint64_t>(position - position_, skipped.size());
    if (absl::Status status = ReadAll(std::span(skipped).first(size)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Unpacker::ExpectEnd() {
  std::byte more = {};
  const absl::StatusOr<std::size_t> size = Read({&more, 1});
  if (!size.ok()) return size.status();
  return *size == 0 ? absl::OkStatus() : WrongLength();
}

absl::Status Unpacker::CheckEnd() const {
  if (position_ != member_.byte_count || !rest_.empty() || stream_->avail_in > 0) {
    return WrongLength();
  }
  return crc32_ == member_.crc32 ? absl::OkStatus() : Refuse("damaged: a member's checksum does not match");
}

}  // namespace warpfold::cli
