// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/array.h"

#include <array>

namespace warpfold {
namespace {

struct Row {
  ElementType type;
  absl::string_view name;
  std::size_t bytes;
};

constexpr std::array<Row, kElementTypeCount> kRows = {{
    {ElementType::kInt32, "int32", 4},
    {ElementType::kInt64, "int64", 8},
    {ElementType::kUint32, "uint32", 4},
    {ElementType::kUint64, "uint64", 8},
    {ElementType::kFloat32, "float32", 4},
    {ElementType::kFloat64, "float64", 8},
    {ElementType::kInt8, "int8", 1},
    {ElementType::kUint8, "uint8", 1},
    {ElementType::kInt16, "int16", 2},
    {ElementType::kUint16, "uint16", 2},
    {ElementType::kFloat16, "float16", 2},
    {ElementType::kBfloat16, "bfloat16", 2},
    {ElementType::kBool, "bool", 1},
}};

const Row& RowOf(ElementType type) { return kRows[static_cast<std::size_t>(type) - 1]; }

}  // namespace

std::optional<ElementType> ElementTypeByName(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

absl::string_view ElementTypeName(ElementType type) { return RowOf(type).name; }

std::size_t ElementTypeBytes(ElementType type) { return RowOf(type).bytes; }

}  // namespace warpfold
