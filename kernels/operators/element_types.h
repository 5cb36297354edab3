// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The list of element types. Adding one: a line here, its name in reduction.cc, its proto enum value.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/types.h"

namespace warpfold::kernels {

template <class... Ts>
struct TypeList {};

// In the order of the enum ElementType.
using ElementTypes = TypeList<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t, float, double>;

template <class T>
concept IntegerElement = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>;
template <class T>
concept FloatElement = std::same_as<T, float> || std::same_as<T, double>;
template <class T>
concept AnyElement = IntegerElement<T> || FloatElement<T>;

// int64_t for signed integers, uint64_t for unsigned ones, double for floats: what results come in.
template <AnyElement T>
using Wide = std::conditional_t<FloatElement<T>, double,
                                std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

template <class T>
struct UnsignedOf {
  using type = std::make_unsigned_t<T>;
};
template <FloatElement T>
struct UnsignedOf<T> {
  using type = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
};
// The unsigned integer of the same width.
template <AnyElement T>
using Bits = typename UnsignedOf<T>::type;

}  // namespace warpfold::kernels
