// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/npz.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/refuse.h"
#include "client/cli/zip_directory.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

constexpr std::size_t kMaxMembersNamed = 20;
// zip's numbers for the compression methods that NumPy writes.
constexpr int kStored = 0;
constexpr int kDeflated = 8;
// Other methods that have names.
constexpr int kBzip2 = 12;
constexpr int kLzma = 14;
constexpr int kZstandard = 93;
// A few milliseconds' work.
constexpr std::size_t kCheckedAtOnce = std::size_t{4} << 20;

std::string Listed(const std::vector<ZipMember>& members) {
  const std::size_t count = std::min(members.size(), kMaxMembersNamed);
  const std::string text =
      absl::StrJoin(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(count), ", ",
                    [](std::string* out, const ZipMember& member) { out->append(member.name); });
  return count < members.size() ? absl::StrCat(text, ", and ", members.size() - count, " more") : text;
}

absl::StatusOr<ZipMember> Choose(const std::vector<ZipMember>& members,
                                 const std::optional<std::string>& name) {
  if (members.empty()) return Refuse("an archive without members");
  if (!name.has_value()) {
    if (members.size() == 1) return members.front();
    return Refuse(
        absl::StrCat("an archive of ", members.size(), " arrays: say --member, of ", Listed(members)));
  }
  for (const std::string& candidate : {*name, absl::StrCat(*name, ".npy")}) {
    const auto found = std::find_if(members.rbegin(), members.rend(),
                                    [&](const ZipMember& member) { return member.name == candidate; });
    if (found != members.rend()) return *found;
  }
  return Refuse(absl::StrCat("no member is called '", *name, "': there are ", Listed(members)));
}

std::string MethodName(int method) {
  if (method == kBzip2) return "bzip2";
  if (method == kLzma) return "LZMA";
  if (method == kZstandard) return "Zstandard";
  return absl::StrCat("zip's method ", method);
}

}  // namespace

absl::StatusOr<NpzMember> NpzMember::Find(std::span<const std::byte> archive,
                                          const std::optional<std::string>& name) {
  const absl::StatusOr<ZipDirectory> directory = ReadZipDirectory(archive);
  if (!directory.ok()) return directory.status();
  const absl::StatusOr<ZipMember> chosen = Choose(directory->members, name);
  if (!chosen.ok()) return chosen.status();
  if (chosen->encrypted) return Refuse(absl::StrCat("member '", chosen->name, "' is encrypted"));
  if (chosen->method != kStored && chosen->method != kDeflated) {
    return Refuse(absl::StrCat("member '", chosen->name, "' is compressed by ", MethodName(chosen->method),
                               ": only deflate is read, as numpy.savez_compressed has it"));
  }
  const absl::StatusOr<std::span<const std::byte>> bytes = PackedBytesOf(*directory, *chosen);
  if (!bytes.ok()) return bytes.status();
  const bool packed = chosen->method == kDeflated;
  if (!packed && bytes->size() != chosen->byte_count) {
    return Refuse(absl::StrCat("damaged: member '", chosen->name, "' has two sizes, and is not compressed"));
  }
  return NpzMember{.packed = packed,
                   .bytes = *bytes,
                   .byte_count = chosen->byte_count,
                   .crc32 = chosen->crc32,
                   .name = chosen->name};
}

absl::Status NpzMember::CheckStored(absl::Time deadline, const std::stop_token& stop) const {
  uLong crc = crc32_z(0, nullptr, 0);
  for (std::size_t at = 0; at < bytes.size(); at += kCheckedAtOnce) {
    if (stop.stop_requested()) return absl::CancelledError();
    if (SteadyNow() >= deadline) return absl::DeadlineExceededError("a member's checksum is not known yet");
    const auto part = bytes.subspan(at, std::min(kCheckedAtOnce, bytes.size() - at));
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  return crc == crc32 ? absl::OkStatus() : Refuse("damaged: a member's checksum does not match");
}

}  // namespace warpfold::cli
