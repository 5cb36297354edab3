// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a zip file contains and where, including zip64 (PKWARE's APPNOTE.TXT, 4.3 and 4.5.3). No position that
// the file gives is trusted before it is known to lie within the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpfold::cli {

struct ZipMember {
  std::string name;
  bool encrypted = false;
  std::uint16_t method = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t byte_count = 0;  // when it is unpacked
  std::uint64_t header_offset = 0;
};

struct ZipDirectory {
  std::span<const std::byte> body;  // part of the file: what is before the list of members
  std::vector<ZipMember> members;   // several may have one name
};

// Whether this file begins with the number that members of a zip file begin with.
bool BeginsAsZip(std::span<const std::byte> start);

// Whether it begins with the number of the end of a zip file, as one without members does.
bool BeginsAsZipEnd(std::span<const std::byte> start);

// Whether it begins with everything that comes before a member's name, which elements are unlikely to match
// by chance.
inline constexpr std::size_t kZipHeaderBytes = 30;
bool BeginsWithZipMember(std::span<const std::byte> start);

// Whether a file of this size that begins with these bytes, of which kZipHeaderBytes are enough, consists
// only of the end of a zip file and its comment, which says that there is nothing else.
bool IsZipWithoutMembers(std::span<const std::byte> start, std::uint64_t file_bytes);

// Whether this whole file begins with a zip file's member, begins as a zip file (BeginsAsZip) and also ends
// like one, or is one without members.
bool IsZip(std::span<const std::byte> file);

// `file` is the whole file, and must outlive the directory. INVALID_ARGUMENT if it is not a zip file, or is
// damaged.
absl::StatusOr<ZipDirectory> ReadZipDirectory(std::span<const std::byte> file);

// Where a member of the directory lies in the file, in its packed form. INVALID_ARGUMENT if it is not there.
absl::StatusOr<std::span<const std::byte>> PackedBytesOf(const ZipDirectory& directory,
                                                         const ZipMember& member);

}  // namespace warpfold::cli
