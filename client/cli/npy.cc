// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/npy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/npy_header.h"
#include "client/cli/refuse.h"

namespace warpfold::cli {
namespace {

// NumPy itself rejects headers of more than 10,000 bytes unless told to trust the file.
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

// NumPy writes the order of bytes, but also reads descriptions without one and with '=', which are those of
// the machine. A single byte has no order: any will do.
bool IsOf(absl::string_view descr, const DescrRow& row) {
  const absl::string_view name = row.descr.substr(1);
  if (descr == name) return true;
  const absl::string_view orders = ElementTypeBytes(row.type) == 1 ? "<>=|" : "<=|";
  return !descr.empty() && absl::StrContains(orders, descr.front()) && descr.substr(1) == name;
}

absl::StatusOr<ElementType> TypeOf(absl::string_view descr) {
  for (const DescrRow& row : kDescrs) {
    if (IsOf(descr, row)) return row.type;
  }
  if (absl::StartsWith(descr, ">")) {
    return Refuse(absl::StrCat("big-endian array (dtype '", descr, "'): little-endian only"));
  }
  return Refuse(absl::StrCat("unsupported dtype '", descr,
                             "': integers of 8 to 64 bits, floats of 16 to 64, and bool only"));
}

// Bytes of the array. INVALID_ARGUMENT if their number does not fit in 64 bits.
absl::StatusOr<std::uint64_t> DataBytes(const NpyHeader& header, ElementType type) {
  std::uint64_t bytes = ElementTypeBytes(type);
  for (const std::uint64_t length : header.shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return Refuse("the shape overflows 64 bits");
  }
  return bytes;
}

// Whether both orders are the same: not every writer calls such an array C-ordered, as NumPy does.
bool IsAlsoInCOrder(const std::vector<std::uint64_t>& shape) {
  return std::ranges::count(shape, 0) > 0 ||
         std::ranges::count_if(shape, [](std::uint64_t length) { return length > 1; }) <= 1;
}

// Exactly `size` bytes.
absl::StatusOr<std::string> ReadAll(NpyReader read, std::size_t size) {
  absl::StatusOr<std::string> bytes = read(size);
  if (bytes.ok() && bytes->size() < size) return Refuse("truncated: the input ends in its header");
  return bytes;
}

absl::StatusOr<std::string> ReadHeaderText(NpyReader read) {
  const absl::StatusOr<std::string> version = ReadAll(read, 2);
  if (!version.ok()) return version.status();
  const int major = static_cast<unsigned char>((*version)[0]);
  const int minor = static_cast<unsigned char>((*version)[1]);
  if (major < 1 || major > 3 || minor != 0) {
    return Refuse(absl::StrCat("unsupported .npy version ", major, ".", minor));
  }
  const absl::StatusOr<std::string> length = ReadAll(read, major == 1 ? 2 : 4);
  if (!length.ok()) return length.status();
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < length->size(); ++i) {
    header_bytes |= std::uint64_t{static_cast<unsigned char>((*length)[i])} << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes) return Refuse(absl::StrCat("header of ", header_bytes, " bytes"));
  return ReadAll(read, header_bytes);
}

}  // namespace

absl::StatusOr<NpyHead> ReadNpyHead(NpyReader read) {
  const absl::StatusOr<std::string> text = ReadHeaderText(read);
  if (!text.ok()) return text.status();
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(*text);
  if (!header.ok()) return header.status();
  const absl::StatusOr<ElementType> type = TypeOf(header->descr);
  if (!type.ok()) return type.status();
  if (header->fortran_order && !IsAlsoInCOrder(header->shape)) {
    return Refuse("Fortran-ordered array: save it in C order, as with numpy.ascontiguousarray");
  }
  const absl::StatusOr<std::uint64_t> bytes = DataBytes(*header, *type);
  if (!bytes.ok()) return bytes.status();
  return NpyHead{*type, std::move(header->shape), *bytes};
}

absl::Status CheckNpyData(std::uint64_t announced_bytes, std::uint64_t bytes) {
  if (bytes < announced_bytes) {
    return Refuse(absl::StrCat("truncated: the header announces ", announced_bytes,
                               " bytes of data, the input has ", bytes));
  }
  if (bytes > announced_bytes) {
    return Refuse(absl::StrCat("too long: the header announces ", announced_bytes,
                               " bytes of data, the input has ", bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<NpyArray> ParseNpy(std::span<const std::byte> file) {
  if (!IsNpy(file)) return Refuse("not an .npy file");
  std::span<const std::byte> rest = file.subspan(kNpyMagic.size());
  const auto read = [&rest](std::size_t size) -> absl::StatusOr<std::string> {
    const std::span<const std::byte> bytes = rest.first(std::min(size, rest.size()));
    rest = rest.subspan(bytes.size());
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  absl::StatusOr<NpyHead> head = ReadNpyHead(read);
  if (!head.ok()) return head.status();
  if (absl::Status status = CheckNpyData(head->data_bytes, rest.size()); !status.ok()) return status;
  return NpyArray{head->type, std::move(head->shape), rest};
}

bool IsNpy(std::span<const std::byte> start) {
  const absl::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  return absl::StartsWith(text, kNpyMagic);
}

}  // namespace warpfold::cli
