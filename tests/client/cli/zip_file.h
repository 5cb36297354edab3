// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Zip files for tests, with or without zip64, and with any value in one of their fields; and the content to
// which their members unpack.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/npz.h"
#include "client/cli/unpacker.h"

namespace warpfold::cli {

struct MemberOfZip {
  std::string name;
  std::string data;  // as it lies in the file
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::string name_where_it_lies = name;
  std::string unpacked = data;
};

// The number's first `size` bytes; it has eight, and zeros follow.
inline std::string Little(std::uint64_t number, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(i < 8 ? static_cast<char>(number >> (8 * i)) : '\0');
  return bytes;
}

inline std::uint32_t ChecksumOf(const std::string& data) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

inline std::string Deflated(const std::string& data) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(data.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// With zip64 all sizes and offsets are in its records, and `shift` is added to the offsets of members.
inline std::string ZipFile(const std::vector<MemberOfZip>& members, bool zip64 = false,
                           std::uint64_t shift = 0) {
  constexpr std::uint64_t kDoesNotFit = 0xffffffff;
  std::string file;
  std::string entries;
  for (const MemberOfZip& member : members) {
    const std::uint64_t offset = file.size() + shift;
    const std::uint64_t size = member.data.size();
    const std::uint64_t unpacked = member.unpacked.size();
    const std::string common = Little(45, 2) + Little(member.flags, 2) + Little(member.method, 2) +
                               Little(0, 4) + Little(ChecksumOf(member.unpacked), 4) +
                               Little(zip64 ? kDoesNotFit : size, 4) +
                               Little(zip64 ? kDoesNotFit : unpacked, 4);
    const std::string sizes =
        zip64 ? Little(1, 2) + Little(16, 2) + Little(unpacked, 8) + Little(size, 8) : "";
    file += "PK\x03\x04" + common + Little(member.name_where_it_lies.size(), 2) + Little(sizes.size(), 2) +
            member.name_where_it_lies + sizes + member.data;
    // A field of another kind comes before the zip64 field.
    const std::string fields = zip64 ? Little(0x5455, 2) + Little(1, 2) + "x" + Little(1, 2) + Little(24, 2) +
                                           Little(unpacked, 8) + Little(size, 8) + Little(offset, 8)
                                     : "";
    entries += "PK\x01\x02" + Little(45, 2) + common + Little(member.name.size(), 2) +
               Little(fields.size(), 2) + Little(0, 10) + Little(zip64 ? kDoesNotFit : offset, 4) +
               member.name + fields;
  }
  const std::uint64_t count = members.size();
  const std::uint64_t offset = file.size();
  file += entries;
  if (zip64) {
    const std::uint64_t end = file.size();
    file += "PK\x06\x06" + Little(44, 8) + Little(45, 2) + Little(45, 2) + Little(0, 8) + Little(count, 8) +
            Little(count, 8) + Little(entries.size(), 8) + Little(offset, 8);
    file += "PK\x06\x07" + Little(0, 4) + Little(end, 8) + Little(1, 4);
  }
  return file + "PK\x05\x06" + Little(0, 4) + Little(count, 2) + Little(count, 2) +
         Little(zip64 ? kDoesNotFit : entries.size(), 4) + Little(zip64 ? kDoesNotFit : offset, 4) +
         Little(0, 2);
}

// Reads this many bytes of a packed member at a time, to its end.
inline absl::StatusOr<std::string> Unpacked(const NpzMember& member, std::size_t at_once) {
  Unpacker unpacker(member);
  std::string text;
  std::vector<std::byte> buffer(at_once);
  while (true) {
    const absl::StatusOr<std::size_t> size = unpacker.Read(buffer);
    if (!size.ok()) return size.status();
    if (*size == 0) return text;
    text.append(reinterpret_cast<const char*>(buffer.data()), *size);
  }
}

}  // namespace warpfold::cli
