// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/generated_arrays.h"

#include <algorithm>
#include <bit>
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

// `x`, which T holds exactly. 16-bit floats are cut out of 32-bit ones.
template <Element T, typename X>
T Exactly(X x) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, Bfloat16>) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    if constexpr (std::same_as<T, Bfloat16>) return {static_cast<std::uint16_t>(bits >> 16)};
    // The exponent's bias is 127 in float and 15 in binary16.
    return {static_cast<std::uint16_t>(bits == 0 ? 0 : (bits >> 13) - (112u << 10))};
  } else {
    return static_cast<T>(x);
  }
}

// Bits of the significand of a float; of the magnitude of an integer.
template <Element T>
constexpr int Digits() {
  if constexpr (std::same_as<T, Float16>) return 11;
  if constexpr (std::same_as<T, Bfloat16>) return 8;
  return std::numeric_limits<T>::digits;
}

template <Element T>
Generator Iota() {
  return Elementwise<T>([](std::uint64_t index) { return Exactly<T>(index); });
}

template <Element T>
Generator Random(std::uint64_t seed) {
  return Elementwise<T>([seed](std::uint64_t index) {
    const std::uint64_t bits = SplitMix64(seed, index);
    if constexpr (FloatElement<T>) {
      const double unit = 1.0 / static_cast<double>(std::uint64_t{1} << Digits<T>());
      return Exactly<T>(static_cast<double>(bits >> (64 - Digits<T>())) * unit);
    } else if constexpr (std::same_as<T, bool>) {
      return (bits >> 63) != 0;
    } else {
      return static_cast<T>(bits);
    }
  });
}

// What f.operator()<T>() returns for the C++ type of `type`.
template <typename F>
auto WithType(ElementType type, F f) {
  using Answer = decltype(f.template operator()<float>());
  Answer answer{};
  const auto offer = [&]<Element... Ts>() {
    ((type == ElementTypeOf<Ts>() ? static_cast<void>(answer = f.template operator()<Ts>()) : void()), ...);
  };
  offer
      .template operator()<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                           std::uint32_t, std::uint64_t, float, double, Float16, Bfloat16, bool>();
  return answer;
}

}  // namespace

Generator IotaGenerator(ElementType type) {
  return WithType(type, []<Element T>() { return Iota<T>(); });
}

Generator RandomGenerator(ElementType type, std::uint64_t seed) {
  return WithType(type, [seed]<Element T>() { return Random<T>(seed); });
}

std::uint64_t MaxIota(ElementType type) {
  return WithType(type, []<Element T>() {
    // Integers up to their largest; floats up to the first that they skip.
    if (FloatElement<T>) return (std::uint64_t{1} << Digits<T>()) + 1;
    return std::uint64_t{1} << std::min(Digits<T>(), 63);
  });
}

}  // namespace warpfold::cli
