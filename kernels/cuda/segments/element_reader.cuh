// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of any type, read from shared memory as the widest type of their kind: int64, uint64 or double.
// The type is known only at run time and tested once for several elements, so that one kernel serves all
// types of a kind.
#pragma once

#include <cstdint>

#include "kernels/cuda/tuning.h"
#include "kernels/operators/element_types.h"
#include "kernels/types.h"

namespace warpfold::kernels::cuda {

// Reads `count` elements, whose addresses are place(0), place(1), ..., into wide[0], wide[1], ...
template <class T, class Wide, class Place>
__device__ __forceinline__ void ReadEach(const Place& place, std::uint32_t count, Wide (&wide)[kReadAtOnce]) {
#pragma unroll
  for (std::uint32_t i = 0; i < kReadAtOnce; ++i) {
    if (i < count) wide[i] = static_cast<Wide>(ValueOf(*reinterpret_cast<const T*>(place(i))));
  }
}

template <class Place>
__device__ __forceinline__ void ReadElements(ElementType type, const Place& place, std::uint32_t count,
                                             std::int64_t (&wide)[kReadAtOnce]) {
  switch (type) {
    case ElementType::kInt8:
      return ReadEach<std::int8_t>(place, count, wide);
    case ElementType::kInt16:
      return ReadEach<std::int16_t>(place, count, wide);
    case ElementType::kInt32:
      return ReadEach<std::int32_t>(place, count, wide);
    default:
      return ReadEach<std::int64_t>(place, count, wide);
  }
}

// Signed integers, too, as their bits.
template <class Place>
__device__ __forceinline__ void ReadElements(ElementType type, const Place& place, std::uint32_t count,
                                             std::uint64_t (&wide)[kReadAtOnce]) {
  switch (type) {
    case ElementType::kBool:
      return ReadEach<Boolean>(place, count, wide);
    case ElementType::kInt8:
    case ElementType::kUint8:
      return ReadEach<std::uint8_t>(place, count, wide);
    case ElementType::kInt16:
    case ElementType::kUint16:
      return ReadEach<std::uint16_t>(place, count, wide);
    case ElementType::kInt32:
    case ElementType::kUint32:
      return ReadEach<std::uint32_t>(place, count, wide);
    default:
      return ReadEach<std::uint64_t>(place, count, wide);
  }
}

template <class Place>
__device__ __forceinline__ void ReadElements(ElementType type, const Place& place, std::uint32_t count,
                                             double (&wide)[kReadAtOnce]) {
  switch (type) {
    case ElementType::kFloat16:
      return ReadEach<Float16>(place, count, wide);
    case ElementType::kBfloat16:
      return ReadEach<Bfloat16>(place, count, wide);
    case ElementType::kFloat32:
      return ReadEach<float>(place, count, wide);
    default:
      return ReadEach<double>(place, count, wide);
  }
}

}  // namespace warpfold::kernels::cuda
