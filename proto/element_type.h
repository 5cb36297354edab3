// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What elements of arrays can be, by the numbers and names that the API has. Server, kernels and clients
// share this. No abseil: device code includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace warpfold {

// The type of a scalar element, or of one entry of a matrix. The numbers are those of the protocol.
enum class ElementType : std::uint8_t {
  kInt32 = 1,
  kInt64 = 2,
  kUint32 = 3,
  kUint64 = 4,
  kFloat32 = 5,
  kFloat64 = 6,
  kInt8 = 7,
  kUint8 = 8,
  kInt16 = 9,
  kUint16 = 10,
  kFloat16 = 11,
  kBfloat16 = 12,
  kBool = 13,
};
inline constexpr int kElementTypeCount = 13;

// Positions in tables and lists, which begin at 0 and are in the order of the enum.
constexpr int IndexOf(ElementType type) { return static_cast<int>(type) - 1; }
constexpr ElementType ElementTypeAt(int index) { return static_cast<ElementType>(index + 1); }

struct ElementTypeFacts {
  const char* name;  // NumPy's, as "int32"
  std::size_t bytes;
};
inline constexpr ElementTypeFacts kElementTypes[kElementTypeCount] = {
    {"int32", 4}, {"int64", 8}, {"uint32", 4}, {"uint64", 8},  {"float32", 4},  {"float64", 8}, {"int8", 1},
    {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"float16", 2}, {"bfloat16", 2}, {"bool", 1},
};

constexpr const char* ElementTypeName(ElementType type) { return kElementTypes[IndexOf(type)].name; }
constexpr std::size_t ElementTypeBytes(ElementType type) { return kElementTypes[IndexOf(type)].bytes; }
constexpr bool IsFloat(ElementType type) {
  using enum ElementType;
  return type == kFloat16 || type == kBfloat16 || type == kFloat32 || type == kFloat64;
}
constexpr std::optional<ElementType> ElementTypeByName(std::string_view name) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    if (name == kElementTypes[i].name) return ElementTypeAt(i);
  }
  return std::nullopt;
}

}  // namespace warpfold
