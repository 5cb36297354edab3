// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/npz.h"

#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/refuse.h"

namespace warpfold::cli {

// The archive as minizip reads it: as a file, of which it keeps the position.
struct MemoryFile {
  std::span<const std::byte> bytes;
  std::uint64_t position = 0;
};

namespace {

constexpr std::uint64_t kMostMembersNamed = 20;
constexpr int kStored = 0;  // zip's number of no compression
constexpr uLong kEncrypted = 1;
// A few milliseconds' work.
constexpr std::size_t kCheckedAtOnce = std::size_t{4} << 20;

MemoryFile& FileOf(voidpf stream) { return *static_cast<MemoryFile*>(stream); }

voidpf OpenMemory(voidpf file, const void* /*name*/, int /*mode*/) { return file; }

uLong ReadMemory(voidpf /*unused*/, voidpf stream, void* buffer, uLong size) {
  MemoryFile& file = FileOf(stream);
  const std::uint64_t left = file.bytes.size() - std::min<std::uint64_t>(file.position, file.bytes.size());
  const uLong count = std::min<std::uint64_t>(size, left);
  if (count > 0) std::memcpy(buffer, file.bytes.data() + file.position, count);
  file.position += count;
  return count;
}

ZPOS64_T TellMemory(voidpf /*unused*/, voidpf stream) { return FileOf(stream).position; }

long SeekMemory(voidpf /*unused*/, voidpf stream, ZPOS64_T offset, int origin) {
  MemoryFile& file = FileOf(stream);
  std::uint64_t base = 0;
  if (origin == ZLIB_FILEFUNC_SEEK_CUR) base = file.position;
  if (origin == ZLIB_FILEFUNC_SEEK_END) base = file.bytes.size();
  if (__builtin_add_overflow(base, offset, &file.position)) return -1;
  return file.position <= file.bytes.size() ? 0 : -1;
}

int CloseMemory(voidpf /*unused*/, voidpf /*stream*/) { return 0; }
int ErrorOfMemory(voidpf /*unused*/, voidpf /*stream*/) { return 0; }

absl::StatusOr<std::vector<std::string>> MemberNames(unzFile archive) {
  std::vector<std::string> names;
  for (int code = unzGoToFirstFile(archive); code != UNZ_END_OF_LIST_OF_FILE;
       code = unzGoToNextFile(archive)) {
    std::array<char, 4096> name = {};
    unz_file_info64 info = {};
    // An empty archive has no first member.
    if (code == UNZ_OK) {
      code = unzGetCurrentFileInfo64(archive, &info, name.data(), name.size() - 1, nullptr, 0, nullptr, 0);
    }
    if (code != UNZ_OK) return Refuse("damaged: its list of members cannot be read");
    names.emplace_back(name.data());
  }
  return names;
}

std::string Listed(const std::vector<std::string>& names) {
  const std::size_t count = std::min<std::size_t>(names.size(), kMostMembersNamed);
  const std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", ");
  return count < names.size() ? absl::StrCat(text, ", and ", names.size() - count, " more") : text;
}

absl::StatusOr<std::string> Choose(const std::vector<std::string>& names,
                                   const std::optional<std::string>& name) {
  if (names.empty()) return Refuse("an archive without members");
  if (!name.has_value()) {
    if (names.size() == 1) return names.front();
    return Refuse(absl::StrCat("an archive of ", names.size(), " arrays: say --member, of ", Listed(names)));
  }
  for (const std::string& candidate : {*name, absl::StrCat(*name, ".npy")}) {
    if (std::find(names.begin(), names.end(), candidate) != names.end()) return candidate;
  }
  return Refuse(absl::StrCat("no member is called '", *name, "': there are ", Listed(names)));
}

}  // namespace

struct NpzMember::Archive {
  MemoryFile file;
  unzFile zip = nullptr;
  bool ended = false;
};

void NpzMember::Close::operator()(Archive* archive) const {
  if (archive->zip != nullptr) unzClose(archive->zip);
  delete archive;
}

bool IsZip(std::span<const std::byte> start) {
  for (const absl::string_view magic : {"PK\x03\x04", "PK\x05\x06"}) {
    if (start.size() >= magic.size() && std::memcmp(start.data(), magic.data(), magic.size()) == 0)
      return true;
  }
  return false;
}

absl::StatusOr<NpzMember> NpzMember::Open(std::span<const std::byte> archive,
                                          const std::optional<std::string>& name) {
  NpzMember member;
  member.archive_.reset(new Archive{.file = {.bytes = archive}});
  zlib_filefunc64_def functions = {OpenMemory, ReadMemory,  nullptr,       TellMemory,
                                   SeekMemory, CloseMemory, ErrorOfMemory, &member.archive_->file};
  // minizip reads only where it is told to write to nothing.
  const unzFile zip = unzOpen2_64(&member.archive_->file, &functions);
  if (zip == nullptr) return Refuse("not a zip file, or a truncated one");
  member.archive_->zip = zip;
  const absl::StatusOr<std::vector<std::string>> names = MemberNames(zip);
  if (!names.ok()) return names.status();
  const absl::StatusOr<std::string> chosen = Choose(*names, name);
  if (!chosen.ok()) return chosen.status();
  unz_file_info64 info = {};
  if (unzLocateFile(zip, chosen->c_str(), 1) != UNZ_OK ||
      unzGetCurrentFileInfo64(zip, &info, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK) {
    return Refuse(absl::StrCat("damaged: member '", *chosen, "' cannot be found"));
  }
  if ((info.flag & kEncrypted) != 0) return Refuse(absl::StrCat("member '", *chosen, "' is encrypted"));
  if (unzOpenCurrentFile(zip) != UNZ_OK) {
    return Refuse(absl::StrCat("member '", *chosen, "' is damaged, or compressed in an unknown way"));
  }
  member.byte_count_ = info.uncompressed_size;
  member.crc32_ = static_cast<std::uint32_t>(info.crc);
  if (info.compression_method == kStored) {
    const std::uint64_t offset = unzGetCurrentFileZStreamPos64(zip);
    if (info.compressed_size != info.uncompressed_size || offset > archive.size() ||
        info.uncompressed_size > archive.size() - offset) {
      return Refuse(absl::StrCat("truncated: member '", *chosen, "' ends beyond the archive"));
    }
    member.stored_ = archive.subspan(offset, info.uncompressed_size);
  }
  return member;
}

absl::Status NpzMember::CheckStored(absl::Time deadline, const std::stop_token& stop) const {
  uLong crc = crc32_z(0, nullptr, 0);
  for (std::size_t at = 0; at < stored_.size(); at += kCheckedAtOnce) {
    if (stop.stop_requested()) return absl::CancelledError();
    if (absl::Now() >= deadline) return absl::DeadlineExceededError("a member's checksum is not known yet");
    const auto part = stored_.subspan(at, std::min(kCheckedAtOnce, stored_.size() - at));
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  return crc == crc32_ ? absl::OkStatus() : Refuse("damaged: a member's checksum does not match");
}

absl::StatusOr<std::size_t> NpzMember::Read(std::span<std::byte> buffer) {
  if (archive_->ended) return 0;
  const auto size = static_cast<unsigned>(std::min<std::size_t>(buffer.size(), INT_MAX));
  const int count = unzReadCurrentFile(archive_->zip, buffer.data(), size);
  if (count > 0) return static_cast<std::size_t>(count);
  archive_->ended = true;
  if (count < 0) return Refuse("damaged: a compressed member cannot be unpacked");
  if (unzCloseCurrentFile(archive_->zip) != UNZ_OK)
    return Refuse("damaged: a member's checksum does not match");
  return 0;
}

}  // namespace warpfold::cli
