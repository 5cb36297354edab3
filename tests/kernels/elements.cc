// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/elements.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/for_each.h"

namespace warpfold::kernels {
namespace {

template <class T>
T FromBits(std::uint64_t bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

template <class T>
T Signed(T magnitude, Random& random) {
  return random() % 2 == 0 ? magnitude : -magnitude;
}

template <class T>
T Tame(Random& random) {
  if constexpr (FloatElement<T>) {
    // Made of integers, so that no library's idea of a distribution matters.
    const double offset = static_cast<double>(random() >> 11) / static_cast<double>(std::uint64_t{1} << 53);
    return Signed(static_cast<T>(1 + (offset - 0.5) / 64), random);
  } else {
    const auto x = static_cast<std::int64_t>(random() % 2001) - (std::is_signed_v<T> ? 1000 : 0);
    return static_cast<T>(x | 1);
  }
}

template <class T>
T AnyBits(Random& random);

template <class T>
T WideFloat(Random& random) {
  if constexpr (FloatElement<T>) {
    return std::ldexp(Tame<T>(random), static_cast<int>(random() % 41) - 20);
  } else {
    return AnyBits<T>(random);
  }
}

template <class T>
T Unit(Random& random) {
  const T units[] = {T{1}, T{1}, T{1}, static_cast<T>(-1), T{0}, static_cast<T>(-0.0)};
  return units[random() % std::size(units)];
}

template <class T>
T Extreme(Random& random) {
  using Limits = std::numeric_limits<T>;
  if constexpr (FloatElement<T>) {
    const T extremes[] = {Limits::max(),
                          Limits::lowest(),
                          Limits::min(),
                          -Limits::denorm_min(),
                          Limits::max(),
                          Limits::lowest(),
                          Limits::denorm_min(),
                          -Limits::infinity(),
                          T{0},
                          -T{0},
                          T{1},
                          -T{1},
                          static_cast<T>(0.1)};
    return extremes[random() % std::size(extremes)];
  } else {
    const T extremes[] = {Limits::max(), Limits::min(), T{0}, T{1}, Limits::max(), static_cast<T>(-1)};
    return extremes[random() % std::size(extremes)];
  }
}

template <class T>
T AnyBits(Random& random) {
  if (FloatElement<T> && random() % 16 == 0) {  // a NaN, quiet or signalling, of either sign
    const std::uint64_t bits = random();
    return sizeof(T) == 4 ? FromBits<T>((bits & 0x807fffffu) | 0x7f800001u)
                          : FromBits<T>((bits & 0x800fffffffffffffu) | 0x7ff0000000000001u);
  }
  return FromBits<T>(random());
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
    case Flavour::kWhole:
      return static_cast<T>(1 + random() % 2);
  }
  return T();
}

}  // namespace

std::vector<std::byte> RandomElements(ElementType type, std::uint64_t count, Flavour flavour,
                                      Random& random) {
  std::vector<std::byte> bytes;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if (static_cast<int>(type) != kType) return;
    bytes.resize(count * sizeof(T));
    for (std::uint64_t i = 0; i < count; ++i) {
      const T x = OneOf<T>(flavour, random);
      std::memcpy(bytes.data() + i * sizeof(T), &x, sizeof x);
    }
  });
  return bytes;
}

void MakeUnitLike(ElementType type, std::uint32_t dimension, std::span<std::byte> matrices) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if (static_cast<int>(type) != kType) return;
    const std::uint64_t scalars = matrices.size() / sizeof(T);
    for (std::uint64_t i = 0; i < scalars; ++i) {
      const std::uint64_t entry = i % (std::uint64_t{dimension} * dimension);
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
  });
}

}  // namespace warpfold::kernels
