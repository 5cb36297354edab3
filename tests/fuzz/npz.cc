// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Archives in which any bytes may differ from what they should be. If none does, each member is found as it
// was written; otherwise what is found lies in the file, and unpacks to the same bytes however many are
// requested.
#include "client/cli/npz.h"

#include <string>
#include <vector>

#include "tests/client/cli/zip_file.h"
#include "tests/fuzz/input.h"

namespace warpfold::cli {
namespace {

using fuzz::Expect;

// Members that unpack to more are not compared.
constexpr std::uint64_t kMaxUnpacked = 1 << 16;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::StatusOr<std::string> Contents(const NpzMember& member) {
  if (!member.packed) {
    const absl::Status status = member.CheckStored(absl::InfiniteFuture());
    return status.ok() ? absl::StatusOr<std::string>(TextOf(member.bytes)) : status;
  }
  if (member.byte_count > kMaxUnpacked) return absl::UnimplementedError("");
  absl::StatusOr<std::string> whole = Unpacked(member, kMaxUnpacked + 1);
  const absl::StatusOr<std::string> pieces = Unpacked(member, 7);
  Expect(!whole.ok() || whole->size() == member.byte_count, "as many as announced");
  Expect(whole.ok() == pieces.ok() && (!whole.ok() || *whole == *pieces), "both ways agree");
  return whole;
}

void Check(fuzz::Input& input) {
  std::vector<MemberOfZip> members;
  for (const char* name : {"a.npy", "b.npy"}) {
    MemberOfZip& member =
        members.emplace_back(MemberOfZip{.name = name, .data = input.Bytes(input.Below(100))});
    if (input.OneIn(2)) continue;
    member.method = 8;
    member.unpacked = member.data;
    member.data = Deflated(member.unpacked);
  }
  std::string file = (input.OneIn(4) ? "#!/bin/sh" : "") + ZipFile(members, input.OneIn(2));
  const std::uint64_t changes = input.Below(4);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::string bytes = input.Bytes(1 + input.Below(8));
    file.replace(input.Below(file.size()), bytes.size(), bytes);
  }
  const auto bytes = std::as_bytes(std::span(file));
  for (const MemberOfZip& written : members) {
    const absl::StatusOr<NpzMember> found = NpzMember::Find(bytes, written.name);
    const absl::StatusOr<std::string> contents = found.ok() ? Contents(*found) : found.status();
    if (changes == 0) Expect(contents.ok() && *contents == written.unpacked, "as it was written");
    if (!found.ok() || found->bytes.empty()) continue;
    Expect(found->bytes.data() >= bytes.data() &&
               found->bytes.data() + found->bytes.size() <= bytes.data() + bytes.size(),
           "in the file");
  }
}

}  // namespace
}  // namespace warpfold::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  warpfold::fuzz::Input input(data, size);
  warpfold::cli::Check(input);
  return 0;
}
