// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/npy.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/npy_header.h"

namespace warpfold::cli {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
// NumPy itself refuses headers of more than 10,000 bytes unless told to trust the file.
constexpr std::uint64_t kMaxHeaderBytes = 64 << 10;

struct DescrRow {
  absl::string_view descr;
  ElementType type;
};
constexpr std::array<DescrRow, 12> kDescrs = {{
    {"<i4", ElementType::kInt32},
    {"<i8", ElementType::kInt64},
    {"<u4", ElementType::kUint32},
    {"<u8", ElementType::kUint64},
    {"<f4", ElementType::kFloat32},
    {"<f8", ElementType::kFloat64},
    {"|i1", ElementType::kInt8},
    {"|u1", ElementType::kUint8},
    {"<i2", ElementType::kInt16},
    {"<u2", ElementType::kUint16},
    {"<f2", ElementType::kFloat16},
    {"|b1", ElementType::kBool},
}};

absl::Status Refuse(absl::string_view why) { return absl::InvalidArgumentError(why); }

absl::StatusOr<ElementType> TypeOf(absl::string_view descr) {
  for (const DescrRow& row : kDescrs) {
    if (row.descr == descr) return row.type;
  }
  if (absl::StartsWith(descr, ">")) {
    return Refuse(absl::StrCat("big-endian array (dtype '", descr, "'): little-endian only"));
  }
  return Refuse(absl::StrCat("unsupported dtype '", descr,
                             "': integers of 8 to 64 bits, floats of 16 to 64, and bool only"));
}

// Bytes of the array; nothing if the number does not fit.
absl::StatusOr<std::uint64_t> DataBytes(const NpyHeader& header, ElementType type) {
  std::uint64_t bytes = ElementTypeBytes(type);
  for (const std::uint64_t length : header.shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return Refuse("the shape overflows 64 bits");
  }
  return bytes;
}

// Splits the file into header text and data.
absl::StatusOr<std::pair<absl::string_view, std::span<const std::byte>>> Split(
    std::span<const std::byte> file) {
  const absl::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!absl::StartsWith(text, kMagic)) return Refuse("not an .npy file");
  if (text.size() < kMagic.size() + 2) return Refuse("truncated: the file ends in its header");
  const int major = static_cast<unsigned char>(text[kMagic.size()]);
  const int minor = static_cast<unsigned char>(text[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return Refuse(absl::StrCat("unsupported .npy version ", major, ".", minor));
  }
  const std::size_t length_offset = kMagic.size() + 2;
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t header_offset = length_offset + length_bytes;
  if (text.size() < header_offset) return Refuse("truncated: the file ends in its header");
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    header_bytes |= std::uint64_t{static_cast<unsigned char>(text[length_offset + i])} << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes) return Refuse(absl::StrCat("header of ", header_bytes, " bytes"));
  if (text.size() - header_offset < header_bytes) return Refuse("truncated: the file ends in its header");
  return std::pair(text.substr(header_offset, header_bytes), file.subspan(header_offset + header_bytes));
}

}  // namespace

absl::StatusOr<NpyArray> ParseNpy(std::span<const std::byte> file) {
  const auto parts = Split(file);
  if (!parts.ok()) return parts.status();
  const auto& [text, data] = *parts;
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(text);
  if (!header.ok()) return header.status();
  const absl::StatusOr<ElementType> type = TypeOf(header->descr);
  if (!type.ok()) return type.status();
  if (header->fortran_order && header->shape.size() > 1) {
    return Refuse("Fortran-ordered array: save it in C order, as with numpy.ascontiguousarray");
  }
  const absl::StatusOr<std::uint64_t> bytes = DataBytes(*header, *type);
  if (!bytes.ok()) return bytes.status();
  if (data.size() < *bytes) {
    return Refuse(absl::StrCat("truncated: the header announces ", *bytes, " bytes of data, the file has ",
                               data.size()));
  }
  if (data.size() > *bytes)
    return Refuse(absl::StrCat(data.size() - *bytes, " bytes left over after the array"));
  return NpyArray{*type, std::move(header->shape), data};
}

}  // namespace warpfold::cli
