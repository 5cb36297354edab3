// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/zip_directory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/refuse.h"

namespace warpfold::cli {
namespace {

using Bytes = std::span<const std::byte>;

// Each kind of record begins with its own number, and has this many bytes before the parts of varying length.
struct RecordKind {
  std::uint32_t magic;
  std::uint64_t size;
};
constexpr RecordKind kLocalHeader = {0x04034b50, kZipHeaderBytes};
constexpr RecordKind kEntry = {0x02014b50, 46};
constexpr RecordKind kEnd64 = {0x06064b50, 56};
constexpr RecordKind kEnd64Locator = {0x07064b50, 20};
constexpr RecordKind kEnd = {0x06054b50, 22};

constexpr std::uint64_t kMaxCommentBytes = 0xffff;
constexpr std::uint64_t kDoesNotFit = 0xffffffff;  // a size or an offset that the zip64 field has instead
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint64_t kFieldHeadBytes = 4;
constexpr std::uint16_t kEncryptedFlag = 1;
// As of APPNOTE.TXT 6.3: the highest version that a reader has to know, and the compression methods in
// archives.
constexpr std::uint16_t kNewestVersion = 63;
constexpr std::array<std::uint16_t, 8> kMethods = {0, 8, 9, 12, 14, 93, 95, 98};

template <typename Number>
Number NumberAt(Bytes record, std::size_t offset) {
  static_assert(std::endian::native == std::endian::little);
  Number number = 0;
  std::memcpy(&number, record.subspan(offset, sizeof(number)).data(), sizeof(number));
  return number;
}

std::uint16_t Number16(Bytes record, std::size_t offset) { return NumberAt<std::uint16_t>(record, offset); }
std::uint32_t Number32(Bytes record, std::size_t offset) { return NumberAt<std::uint32_t>(record, offset); }
std::uint64_t Number64(Bytes record, std::size_t offset) { return NumberAt<std::uint64_t>(record, offset); }

// Whether they begin with the number of a record of this kind.
bool BeginsWith(Bytes start, const RecordKind& kind) {
  return start.size() >= sizeof(kind.magic) && Number32(start, 0) == kind.magic;
}

// The record at `offset`; empty if there is none of this kind.
Bytes RecordAt(Bytes file, std::uint64_t offset, const RecordKind& kind) {
  if (offset > file.size() || kind.size > file.size() - offset) return {};
  const Bytes record = file.subspan(offset, kind.size);
  return Number32(record, 0) == kind.magic ? record : Bytes{};
}

// The record that ends where `end` is.
Bytes RecordBefore(Bytes file, std::uint64_t end, const RecordKind& kind) {
  return end >= kind.size ? RecordAt(file, end - kind.size, kind) : Bytes{};
}

// Where the last end record lies. A comment may follow it.
std::optional<std::uint64_t> FindEnd(Bytes file) {
  if (file.size() < kEnd.size) return std::nullopt;
  const std::uint64_t last = file.size() - kEnd.size;
  for (std::uint64_t behind = 0; behind <= std::min(last, kMaxCommentBytes); ++behind) {
    const Bytes record = RecordAt(file, last - behind, kEnd);
    if (!record.empty() && Number16(record, 20) <= behind) return last - behind;
  }
  return std::nullopt;
}

struct Entries {
  Bytes bytes;
  std::uint64_t offset = 0;  // where they begin in the file
  std::uint64_t origin = 0;  // from which the file counts: there may be a program before the archive
};

// Like NumPy's reader, this assumes that the list ends where the end record begins, whatever its offset says.
absl::StatusOr<Entries> FindEntries(Bytes file) {
  const std::optional<std::uint64_t> end = FindEnd(file);
  if (!end.has_value()) return Refuse("not a zip file, or a truncated one");
  const Bytes record = file.subspan(*end, kEnd.size);
  std::uint64_t size = Number32(record, 12);
  std::uint64_t offset = Number32(record, 16);
  std::uint64_t behind = *end;
  if (!RecordBefore(file, *end, kEnd64Locator).empty()) {
    const std::uint64_t locator = *end - kEnd64Locator.size;
    const Bytes end64 = RecordBefore(file, locator, kEnd64);
    if (end64.empty()) return Refuse("damaged: its zip64 end is not where it should be");
    size = Number64(end64, 40);
    offset = Number64(end64, 48);
    behind = locator - kEnd64.size;
  }
  if (size > behind || offset > behind - size) {
    return Refuse("damaged: its list of members lies outside of it");
  }
  return Entries{file.subspan(behind - size, size), behind - size, behind - size - offset};
}

absl::Status ReadZip64Field(Bytes fields, ZipMember& member) {
  while (fields.size() >= kFieldHeadBytes) {
    const std::uint64_t size = Number16(fields, 2);
    if (size > fields.size() - kFieldHeadBytes) break;
    if (Number16(fields, 0) != kZip64Field) {
      fields = fields.subspan(kFieldHeadBytes + size);
      continue;
    }
    Bytes numbers = fields.subspan(kFieldHeadBytes, size);
    for (std::uint64_t* number : {&member.byte_count, &member.packed_bytes, &member.header_offset}) {
      if (*number != kDoesNotFit) continue;
      if (numbers.size() < sizeof(*number)) return Refuse("damaged: a size of a member is missing");
      *number = Number64(numbers, 0);
      numbers = numbers.subspan(sizeof(*number));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Takes the first entry off `entries`.
absl::StatusOr<ZipMember> TakeEntry(Bytes& entries, std::uint64_t origin) {
  const Bytes entry = RecordAt(entries, 0, kEntry);
  const absl::Status damaged = Refuse("damaged: its list of members cannot be read");
  if (entry.empty()) return damaged;
  const std::uint64_t name_bytes = Number16(entry, 28);
  const std::uint64_t field_bytes = Number16(entry, 30);
  const std::uint64_t comment_bytes = Number16(entry, 32);
  const Bytes rest = entries.subspan(kEntry.size);
  if (name_bytes + field_bytes + comment_bytes > rest.size()) return damaged;
  ZipMember member = {.name = std::string(reinterpret_cast<const char*>(rest.data()), name_bytes),
                      .encrypted = (Number16(entry, 8) & kEncryptedFlag) != 0,
                      .method = Number16(entry, 10),
                      .crc32 = Number32(entry, 16),
                      .packed_bytes = Number32(entry, 20),
                      .byte_count = Number32(entry, 24),
                      .header_offset = Number32(entry, 42)};
  absl::Status status = ReadZip64Field(rest.subspan(name_bytes, field_bytes), member);
  if (!status.ok()) return status;
  if (__builtin_add_overflow(member.header_offset, origin, &member.header_offset)) return damaged;
  entries = rest.subspan(name_bytes + field_bytes + comment_bytes);
  return member;
}

}  // namespace

bool BeginsAsZip(Bytes start) { return BeginsWith(start, kLocalHeader); }

bool BeginsAsZipEnd(Bytes start) { return BeginsWith(start, kEnd); }

bool BeginsWithZipMember(Bytes start) {
  const Bytes header = RecordAt(start, 0, kLocalHeader);
  if (header.empty()) return false;
  const std::uint16_t method = Number16(header, 8);
  if (std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end()) return false;
  // Only encryption makes an uncompressed member longer.
  const bool plain = method == 0 && (Number16(header, 6) & kEncryptedFlag) == 0;
  if (plain && Number32(header, 18) != Number32(header, 22)) return false;
  return Number16(header, 4) <= kNewestVersion && Number16(header, 26) > 0;
}

bool IsZipWithoutMembers(Bytes start, std::uint64_t file_bytes) {
  const Bytes record = RecordAt(start, 0, kEnd);
  if (record.empty() || kEnd.size + Number16(record, 20) != file_bytes) return false;
  const Bytes numbers = record.subspan(4, 16);  // of disks, entries, their size and their offset
  return std::all_of(numbers.begin(), numbers.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool IsZip(Bytes file) {
  return BeginsWithZipMember(file) || (BeginsAsZip(file) && FindEnd(file).has_value()) ||
         IsZipWithoutMembers(file, file.size());
}

absl::StatusOr<ZipDirectory> ReadZipDirectory(Bytes file) {
  const absl::StatusOr<Entries> entries = FindEntries(file);
  if (!entries.ok()) return entries.status();
  ZipDirectory directory = {.body = file.first(entries->offset), .members = {}};
  for (Bytes rest = entries->bytes; !rest.empty();) {
    absl::StatusOr<ZipMember> member = TakeEntry(rest, entries->origin);
    if (!member.ok()) return member.status();
    directory.members.push_back(*std::move(member));
  }
  return directory;
}

absl::StatusOr<Bytes> PackedBytesOf(const ZipDirectory& directory, const ZipMember& member) {
  const Bytes body = directory.body;
  const Bytes header = RecordAt(body, member.header_offset, kLocalHeader);
  if (header.empty()) return Refuse(absl::StrCat("damaged: member '", member.name, "' cannot be found"));
  const std::uint64_t name_bytes = Number16(header, 26);
  const std::uint64_t field_bytes = Number16(header, 28);
  const Bytes rest = body.subspan(member.header_offset + kLocalHeader.size);
  if (name_bytes + field_bytes > rest.size() ||
      member.packed_bytes > rest.size() - name_bytes - field_bytes) {
    return Refuse(absl::StrCat("truncated: member '", member.name, "' ends beyond the archive"));
  }
  if (absl::string_view(reinterpret_cast<const char*>(rest.data()), name_bytes) != member.name) {
    return Refuse(absl::StrCat("damaged: member '", member.name, "' has another name where it lies"));
  }
  return rest.subspan(name_bytes + field_bytes, member.packed_bytes);
}

}  // namespace warpfold::cli
