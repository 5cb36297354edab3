// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads elements from memory, of any alignment. Columns of float16 and bfloat16 are read as floats with the
// same values: every operator over them that works in float64 gives the same over float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class T>
inline __attribute__((always_inline)) T Load(const std::byte* data, std::uint64_t index) {
  T x;
  std::memcpy(&x, data + index * sizeof(T), sizeof x);
  return x;
}

// The unsigned integer that is twice as wide; for 64 bits, 64.
template <class T>
using TwiceAsWide = std::conditional_t<sizeof(T) == 1, std::uint16_t,
                                       std::conditional_t<sizeof(T) == 2, std::uint32_t, std::uint64_t>>;

template <class T>
using Readable = std::conditional_t<HalfElement<T>, float, T>;

template <class T>
inline __attribute__((always_inline)) Readable<T> Read(const std::byte* data, std::uint64_t index) {
  if constexpr (HalfElement<T>) {
    return ToFloat(Load<T>(data, index));
  } else {
    return Load<T>(data, index);
  }
}

// `kCount` adjacent elements, as they are read.
template <class T, std::uint32_t kCount>
class RowElements {
 public:
  inline __attribute__((always_inline)) explicit RowElements(const std::byte* data) : data_(data) {}
  inline __attribute__((always_inline)) Readable<T> operator[](std::uint32_t j) const {
    return Read<T>(data_, j);
  }

 private:
  const std::byte* const data_;
};

#if defined(__F16C__)
// Converts all of them at first, with hand-written code: this is the only conversion that the compiler does
// not vectorise.
template <std::uint32_t kCount>
class RowElements<Float16, kCount> {
 public:
  inline __attribute__((always_inline)) explicit RowElements(const std::byte* data) {
    for (std::uint32_t j = 0; j < kCount; j += 8) {
      const auto halves = Load<__m128i>(data + j * sizeof(Float16), 0);
      _mm256_storeu_ps(elements_ + j, _mm256_cvtph_ps(halves));
    }
  }
  inline __attribute__((always_inline)) float operator[](std::uint32_t j) const { return elements_[j]; }

 private:
  float elements_[kCount];
};
#endif

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
