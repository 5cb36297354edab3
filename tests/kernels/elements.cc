// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/elements.h"

#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"

namespace warpfold::kernels {
namespace {

// The element nearest to `x`.
template <class T>
T Rounded(double x) {
  if constexpr (std::same_as<T, Float16>) {
    __extension__ const auto half = static_cast<_Float16>(x);
    return {BitCast<std::uint16_t>(half)};
  } else if constexpr (std::same_as<T, Bfloat16>) {
    // This takes the neighbour towards zero, which is near enough for a test's data.
    return {static_cast<std::uint16_t>(BitCast<std::uint32_t>(static_cast<float>(x)) >> 16)};
  } else if constexpr (std::same_as<T, Boolean>) {
    return {x != 0};
  } else {
    return static_cast<T>(x);
  }
}

double Signed(double magnitude, Random& random) { return random() % 2 == 0 ? magnitude : -magnitude; }

double TameFloat(Random& random) {
  // Made of integers, so that no library's idea of a distribution matters.
  const double offset = static_cast<double>(random() >> 11) / static_cast<double>(std::uint64_t{1} << 53);
  return Signed(1 + (offset - 0.5) / 64, random);
}

template <class T>
T Tame(Random& random) {
  if constexpr (FloatElement<T>) {
    return Rounded<T>(TameFloat(random));
  } else {
    const auto x = static_cast<std::int64_t>(random() % 2001) - (kIsSigned<T> ? 1000 : 0);
    return T{static_cast<Value<T>>(x | 1)};
  }
}

template <class T>
T AnyBits(Random& random);

template <class T>
T WideFloat(Random& random) {
  if constexpr (FloatElement<T>) {
    // The shorter the fraction, the further apart are elements whose sum is rounded.
    const int octaves = std::same_as<T, Float16> ? 21 : std::same_as<T, Bfloat16> ? 81 : 41;
    return Rounded<T>(std::ldexp(TameFloat(random), static_cast<int>(random() % octaves) - octaves / 2));
  } else {
    return AnyBits<T>(random);
  }
}

template <class T>
T Unit(Random& random) {
  const double units[] = {1, 1, 1, -1, 0, -0.0};
  const double unit = units[random() % std::size(units)];
  if constexpr (FloatElement<T>) {
    return Rounded<T>(unit);
  } else {
    return T{static_cast<Value<T>>(static_cast<std::int64_t>(unit))};
  }
}

template <class T>
T Factor(Random& random) {
  const bool negative = random() % 4 == 0;
  if constexpr (FloatElement<T>) {
    const double magnitude = random() % 1024 == 0 ? 2 : 1;
    return Rounded<T>(negative ? -magnitude : magnitude);
  } else {
    using Limits = std::numeric_limits<Value<T>>;
    const Value<T> others[] = {
        2, 2, 3, Limits::min(), Limits::max(), static_cast<Value<T>>(kIsSigned<T> ? -2 : 5)};
    if (random() % 1024 == 0) {
      const Value<T> other = others[random() % std::size(others)];
      return T{other != 0 ? other : Value<T>{1}};
    }
    return T{static_cast<Value<T>>(kIsSigned<T> && negative ? -1 : 1)};
  }
}

// Bits of the exponent of a float.
template <FloatElement T>
inline constexpr Bits<T> kExponentBits = std::same_as<T, Float16>    ? 0x7c00u
                                         : std::same_as<T, Bfloat16> ? 0x7f80u
                                         : sizeof(T) == 4            ? 0x7f800000u
                                                          : static_cast<Bits<T>>(0x7ff0000000000000u);

template <class T>
T Extreme(Random& random) {
  if constexpr (FloatElement<T>) {
    constexpr auto kInfinity = kExponentBits<T>;
    constexpr auto kLargest = static_cast<Bits<T>>(kInfinity - 1);
    constexpr auto kSmallestNormal = static_cast<Bits<T>>(kInfinity & (0 - kInfinity));
    constexpr auto kSign = static_cast<Bits<T>>(Bits<T>{1} << (8 * sizeof(T) - 1));
    const Bits<T> magnitudes[] = {kLargest,
                                  kLargest,
                                  kSmallestNormal,
                                  1,
                                  kInfinity,
                                  0,
                                  BitCast<Bits<T>>(Rounded<T>(1)),
                                  BitCast<Bits<T>>(Rounded<T>(0.1))};
    const Bits<T> magnitude = magnitudes[random() % std::size(magnitudes)];
    return BitCast<T>(static_cast<Bits<T>>(random() % 2 == 0 ? magnitude : magnitude | kSign));
  } else {
    using Limits = std::numeric_limits<Value<T>>;
    const Value<T> extremes[] = {
        Limits::max(), Limits::min(), 0, 1, Limits::max(), static_cast<Value<T>>(-1)};
    return T{extremes[random() % std::size(extremes)]};
  }
}

template <class T>
T Tiny(Random& random) {
  if constexpr (FloatElement<T>) {
    constexpr auto kSmallestNormal = static_cast<Bits<T>>(kExponentBits<T> & (0 - kExponentBits<T>));
    constexpr auto kSign = static_cast<Bits<T>>(Bits<T>{1} << (8 * sizeof(T) - 1));
    const auto bits = static_cast<Bits<T>>(random());
    // A subnormal, or a normal number with one of the two smallest exponents.
    const auto magnitude =
        static_cast<Bits<T>>(random() % 8 == 0 ? 0 : (bits & ~kSign) % (3 * kSmallestNormal));
    return BitCast<T>(static_cast<Bits<T>>(magnitude | (bits & kSign)));
  } else {
    return Unit<T>(random);
  }
}

template <class T>
T AnyBits(Random& random) {
  auto bits = static_cast<Bits<T>>(random());
  if constexpr (FloatElement<T>) {
    // A NaN, quiet or signalling, of either sign.
    if (random() % 16 == 0) bits = static_cast<Bits<T>>(bits | kExponentBits<T> | 1);
  }
  return BitCast<T>(bits);
}

template <class T>
T OneOf(Flavour flavour, Random& random) {
  switch (flavour) {
    case Flavour::kTame:
      return Tame<T>(random);
    case Flavour::kWide:
      return WideFloat<T>(random);
    case Flavour::kUnits:
      return Unit<T>(random);
    case Flavour::kExtreme:
      return Extreme<T>(random);
    case Flavour::kBits:
      return AnyBits<T>(random);
    case Flavour::kOutliers:
      return random() % 300 == 0 ? AnyBits<T>(random) : Tame<T>(random);
    case Flavour::kFactors:
      return Factor<T>(random);
    case Flavour::kTiny:
      return Tiny<T>(random);
    case Flavour::kWhole:
      return Rounded<T>(static_cast<double>(1 + random() % 2));
  }
  return T();
}

}  // namespace

std::vector<std::byte> RandomElements(ElementType type, std::uint64_t count, Flavour flavour,
                                      Random& random) {
  std::vector<std::byte> bytes;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if (IndexOf(type) != kType) return;
    bytes.resize(count * sizeof(T));
    for (std::uint64_t i = 0; i < count; ++i) {
      const T x = OneOf<T>(flavour, random);
      std::memcpy(bytes.data() + i * sizeof(T), &x, sizeof x);
    }
  });
  return bytes;
}

std::vector<std::byte> ElementsOf(ElementType type, std::span<const double> numbers) {
  std::vector<std::byte> bytes;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if (IndexOf(type) != kType) return;
    bytes.resize(numbers.size() * sizeof(T));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const T x = Rounded<T>(numbers[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &x, sizeof x);
    }
  });
  return bytes;
}

void MakeUnitLike(ElementType type, std::uint32_t dimension, std::span<std::byte> matrices) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if (IndexOf(type) != kType) return;
    const std::uint64_t scalars = matrices.size() / sizeof(T);
    for (std::uint64_t i = 0; i < scalars; ++i) {
      const std::uint64_t entry = i % (std::uint64_t{dimension} * dimension);
      if constexpr (RingElement<T>) {
        const T one = entry % (dimension + 1) == 0 ? T{1} : T{0};
        T x;
        std::memcpy(&x, &matrices[i * sizeof x], sizeof x);
        if constexpr (FloatElement<T>) {
          x = x / 256 + one;
        } else {
          x = static_cast<T>(2 * static_cast<std::uint64_t>(x)) + one;
        }
        std::memcpy(&matrices[i * sizeof x], &x, sizeof x);
      }
    }
  });
}

}  // namespace warpfold::kernels
