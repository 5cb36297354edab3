// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/generated_arrays.h"

#include <concepts>
#include <cstring>
#include <limits>

namespace warpfold::cli {
namespace {

// Fills buffers with elements made by `make(index)`. Offsets are multiples of the element size: the client
// cuts arrays into chunks of a power of two.
template <Element T, typename Make>
Generator Elementwise(Make make) {
  return [make](std::uint64_t offset, std::span<std::byte> buffer) {
    const std::uint64_t first = offset / sizeof(T);
    for (std::size_t i = 0; i < buffer.size() / sizeof(T); ++i) {
      const T element = make(first + i);
      std::memcpy(&buffer[i * sizeof(T)], &element, sizeof(T));
    }
  };
}

template <Element T>
Generator Iota() {
  return Elementwise<T>([](std::uint64_t index) { return static_cast<T>(index); });
}

template <Element T>
Generator Random(std::uint64_t seed) {
  return Elementwise<T>([seed](std::uint64_t index) {
    const std::uint64_t bits = SplitMix64(seed, index);
    if constexpr (std::same_as<T, double>) return static_cast<T>(bits >> 11) * 0x1p-53;
    if constexpr (std::same_as<T, float>) return static_cast<T>(bits >> 40) * 0x1p-24F;
    return static_cast<T>(bits);
  });
}

}  // namespace

Generator IotaGenerator(ElementType type) {
  switch (type) {
    case ElementType::kInt32:
      return Iota<std::int32_t>();
    case ElementType::kInt64:
      return Iota<std::int64_t>();
    case ElementType::kUint32:
      return Iota<std::uint32_t>();
    case ElementType::kUint64:
      return Iota<std::uint64_t>();
    case ElementType::kFloat32:
      return Iota<float>();
    case ElementType::kFloat64:
      return Iota<double>();
  }
  return nullptr;
}

Generator RandomGenerator(ElementType type, std::uint64_t seed) {
  switch (type) {
    case ElementType::kInt32:
      return Random<std::int32_t>(seed);
    case ElementType::kInt64:
      return Random<std::int64_t>(seed);
    case ElementType::kUint32:
      return Random<std::uint32_t>(seed);
    case ElementType::kUint64:
      return Random<std::uint64_t>(seed);
    case ElementType::kFloat32:
      return Random<float>(seed);
    case ElementType::kFloat64:
      return Random<double>(seed);
  }
  return nullptr;
}

std::uint64_t MaxIota(ElementType type) {
  switch (type) {
    case ElementType::kInt32:
      return std::uint64_t{1} << 31;
    case ElementType::kUint32:
      return std::uint64_t{1} << 32;
    case ElementType::kFloat32:
      return (std::uint64_t{1} << 24) + 1;
    case ElementType::kFloat64:
      return (std::uint64_t{1} << 53) + 1;
    case ElementType::kInt64:
    case ElementType::kUint64:
      break;
  }
  return std::uint64_t{1} << 63;
}

}  // namespace warpfold::cli
