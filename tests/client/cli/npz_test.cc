// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which member of a zip file is found and where, and what is wrong with members whose records are false.
#include "client/cli/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/cli/unpacker.h"
#include "client/cli/zip_directory.h"
#include "tests/client/cli/zip_file.h"

namespace warpfold::cli {
namespace {

using testing::HasSubstr;

std::span<const std::byte> BytesOf(const std::string& file) { return std::as_bytes(std::span(file)); }

absl::StatusOr<NpzMember> Find(const std::string& file, std::optional<std::string> name = std::nullopt) {
  return NpzMember::Find(BytesOf(file), name);
}

std::string TextOf(const NpzMember& member) {
  return {reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size()};
}

std::string ErrorOf(const std::string& file, std::optional<std::string> name = std::nullopt) {
  return std::string(Find(file, name).status().message());
}

// A member whose packed bytes unpack to `text`.
NpzMember PackedMember(const std::string& packed, const std::string& text) {
  return {.packed = true, .bytes = BytesOf(packed), .byte_count = text.size(), .crc32 = ChecksumOf(text)};
}

TEST(NpzTest, FindsMembersWithAndWithoutZip64) {
  for (const bool zip64 : {false, true}) {
    const std::string file = ZipFile({{"a.npy", "first"}, {"b.npy", ""}, {"c", "third"}}, zip64);
    for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
             {"a", "first"}, {"a.npy", "first"}, {"b", ""}, {"c", "third"}}) {
      const absl::StatusOr<NpzMember> member = Find(file, name);
      ASSERT_TRUE(member.ok()) << member.status();
      EXPECT_EQ(TextOf(*member), text);
      EXPECT_FALSE(member->packed);
      EXPECT_TRUE(member->CheckStored(absl::InfiniteFuture()).ok());
    }
  }
}

TEST(NpzTest, NamesTwentyMembersAndCountsTheRest) {
  std::vector<MemberOfZip> members;
  for (int i = 0; i < 20; ++i) members.push_back({"m" + std::to_string(i), "text"});
  EXPECT_THAT(ErrorOf(ZipFile(members)), testing::EndsWith("m18, m19"));
  members.push_back({"m20", "text"});
  members.push_back({"m21", "text"});
  EXPECT_THAT(ErrorOf(ZipFile(members)), testing::EndsWith("m19, and 2 more"));
}

TEST(NpzTest, TakesTheLastMemberOfAName) {
  const std::string file = ZipFile({{"a.npy", "old"}, {"b.npy", "other"}, {"a.npy", "new"}});
  EXPECT_EQ(TextOf(*Find(file, "a")), "new");
}

TEST(NpzTest, APlainNameIsTakenBeforeTheOneWithASuffix) {
  const std::string file = ZipFile({{"a.npy", "with"}, {"a", "without"}});
  EXPECT_EQ(TextOf(*Find(file, "a")), "without");
  EXPECT_EQ(TextOf(*Find(file, "a.npy")), "with");
}

TEST(NpzTest, FindsAnArchiveBehindAProgramAndBeforeAComment) {
  for (const bool zip64 : {false, true}) {
    std::string file = "#!/bin/sh" + ZipFile({{"a", "text"}}, zip64);
    file.replace(file.size() - 2, 2, Little(10, 2));
    EXPECT_EQ(TextOf(*Find(file + "0123456789")), "text");
    EXPECT_FALSE(Find(file + "012345678").ok()) << "the end lies beyond the file";
  }
}

TEST(NpzTest, RefusesByNameOfTheReason) {
  const std::string good = ZipFile({{"a", "text"}});
  EXPECT_THAT(ErrorOf(""), HasSubstr("not a zip file"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(ErrorOf(ZipFile({})), HasSubstr("without members"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", ""}, {"b", ""}})), HasSubstr("2 arrays: say --member, of a, b"));
  EXPECT_THAT(ErrorOf(good.substr(1)), HasSubstr("lies outside of it"));
  EXPECT_THAT(ErrorOf(good, "x"), HasSubstr("no member is called 'x': there are a"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", "text", 0, 1}})), HasSubstr("encrypted"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", "text", 12}})), HasSubstr("compressed by bzip2"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", "text", 14}})), HasSubstr("compressed by LZMA"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", "text", 93}})), HasSubstr("compressed by Zstandard"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", "text", 9}})), HasSubstr("zip's method 9"));
  EXPECT_THAT(ErrorOf(ZipFile({{"a", "text", 0, 0, "b"}})), HasSubstr("another name"));
}

TEST(NpzTest, RefusesOffsetsBeyondTheFile) {
  for (const std::uint64_t shift :
       {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    EXPECT_THAT(ErrorOf(ZipFile({{"a", "text"}}, true, shift)), HasSubstr("cannot be found")) << shift;
  }
  // The sum of both offsets does not fit in 64 bits, and what is left of it is the offset of another member.
  const std::string before = ZipFile({{"a", "other"}});
  EXPECT_THAT(ErrorOf(before + ZipFile({{"a", "text"}}, true, -before.size())), HasSubstr("damaged"));
}

// Each field of the records is set to each of these values, which its reader must survive; what it then finds
// lies in the file.
TEST(NpzTest, SurvivesEveryChangedField) {
  for (const bool zip64 : {false, true}) {
    const std::string good = ZipFile({{"a", "text"}, {"b", "more"}}, zip64);
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const std::size_t size : {1, 2, 4, 8}) {
        for (const std::string& value : {std::string(8, '\0'), std::string(8, '\xff'), Little(1, 8),
                                         Little(~std::uint64_t{0} >> 1, 8), Little(good.size(), 8)}) {
          std::string file = good;
          file.replace(at, size, value.substr(0, size));
          const absl::StatusOr<NpzMember> member = Find(file, "b");
          if (!member.ok() || member->packed) continue;
          EXPECT_GE(TextOf(*member).size(), 0u);
          EXPECT_LE(member->bytes.data() + member->bytes.size(), BytesOf(file).data() + file.size());
          EXPECT_GE(member->bytes.data(), BytesOf(file).data());
        }
      }
    }
    for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(Find(good.substr(0, size)).ok());
  }
}

TEST(NpzTest, SaysWhatBeginsAndEndsAsAnArchive) {
  const std::string good = ZipFile({{"a", "text"}});
  EXPECT_TRUE(BeginsAsZip(BytesOf("PK\x03\x04")));
  EXPECT_FALSE(BeginsAsZip(BytesOf("PK\x03")));
  EXPECT_FALSE(BeginsAsZip(BytesOf("text")));
  EXPECT_TRUE(IsZip(BytesOf(good)));
  EXPECT_FALSE(IsZip(BytesOf("PK\x03\x04" + std::string(100'000, 'x'))));
  EXPECT_FALSE(IsZip(BytesOf("text" + good)));
  EXPECT_TRUE(IsZip(BytesOf(good.substr(0, kZipHeaderBytes)))) << "the rest is missing";
}

TEST(NpzTest, AnArchiveWithoutMembersIsItsEndAlone) {
  const std::string empty = ZipFile({});
  EXPECT_TRUE(IsZip(BytesOf(empty)));
  EXPECT_TRUE(IsZip(BytesOf(empty.substr(0, empty.size() - 2) + Little(2, 2) + "ab")));
  EXPECT_FALSE(IsZip(BytesOf(empty + "ab"))) << "it does not end with its comment";
  EXPECT_FALSE(IsZip(BytesOf("PK\x05\x06" + std::string(100, '\0'))));
  for (std::size_t at = 4; at < 20; ++at) {
    std::string other = empty;
    other[at] = 1;
    EXPECT_FALSE(IsZip(BytesOf(other))) << at;
  }
}

TEST(NpzTest, ElementsOfAStreamAreNoHeaderOfAMember) {
  const std::string good = ZipFile({{"a", "text"}}).substr(0, kZipHeaderBytes);
  EXPECT_TRUE(BeginsWithZipMember(BytesOf(good)));
  EXPECT_TRUE(BeginsWithZipMember(BytesOf(ZipFile({{"a", "text", 8}}, true))));
  EXPECT_FALSE(BeginsWithZipMember(BytesOf("PK\x03\x04")));
  EXPECT_FALSE(BeginsWithZipMember(BytesOf(good.substr(0, kZipHeaderBytes - 1))));
  EXPECT_FALSE(BeginsWithZipMember(BytesOf("PK\x03\x04" + std::string(96, '\0')))) << "no name";
  const auto with = [&good](std::size_t at, std::uint64_t number) {
    std::string other = good;
    return other.replace(at, 2, Little(number, 2));
  };
  EXPECT_TRUE(BeginsWithZipMember(BytesOf(with(4, 63))));
  EXPECT_FALSE(BeginsWithZipMember(BytesOf(with(4, 64))));
  for (const int method : {0, 8, 9, 12, 14, 93, 95, 98}) {
    EXPECT_TRUE(BeginsWithZipMember(BytesOf(with(8, static_cast<std::uint64_t>(method))))) << method;
  }
  EXPECT_FALSE(BeginsWithZipMember(BytesOf(with(8, 7)))) << "no method";
  EXPECT_FALSE(BeginsWithZipMember(BytesOf(with(18, 5)))) << "two sizes of a member that is not compressed";
  EXPECT_FALSE(BeginsWithZipMember(BytesOf(with(26, 0)))) << "no name";
}

TEST(UnpackerTest, UnpacksInPiecesOfAnySize) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i);
  const std::string packed = Deflated(text);
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{1000}, text.size(), text.size() + 1}) {
    const absl::StatusOr<std::string> unpacked = Unpacked(PackedMember(packed, text), at_once);
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    EXPECT_EQ(*unpacked, text);
  }
  EXPECT_EQ(*Unpacked(PackedMember(Deflated(""), ""), 10), "");
}

TEST(UnpackerTest, RefusesWhatIsNotAsTheArchiveSays) {
  const std::string text(10'000, 'x');
  const std::string packed = Deflated(text);
  const auto error_of = [](const NpzMember& member) {
    return std::string(Unpacked(member, 1000).status().message());
  };
  NpzMember member = PackedMember(packed, text);
  member.crc32 ^= 1;
  EXPECT_THAT(error_of(member), HasSubstr("checksum"));
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{9'999}, std::uint64_t{10'001}, ~std::uint64_t{0}}) {
    member = PackedMember(packed, text);
    member.byte_count = size;
    EXPECT_THAT(error_of(member), HasSubstr("not as long")) << size;
  }
  member = PackedMember(packed, text);
  member.byte_count = 999;
  std::vector<std::byte> buffer(1000);
  EXPECT_FALSE(Unpacker(member).Read(buffer).ok()) << "the rest is not unpacked first";
  const std::string longer = packed + "x";
  EXPECT_THAT(error_of(PackedMember(longer, text)), HasSubstr("not as long"));
  const std::string shorter = packed.substr(0, packed.size() - 1);
  EXPECT_THAT(error_of(PackedMember(shorter, text)), HasSubstr("cannot be unpacked"));
  EXPECT_THAT(error_of(PackedMember("", text)), HasSubstr("cannot be unpacked"));
  EXPECT_THAT(error_of(PackedMember("\xff\xff\xff", text)), HasSubstr("cannot be unpacked"));
}

}  // namespace
}  // namespace warpfold::cli
