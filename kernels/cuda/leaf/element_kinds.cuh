// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Kinds of elements by which several of the files of this folder choose.
#pragma once

#include <concepts>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cuda {

// A word holds several, and one instruction takes as many.
template <class T>
concept PackedElement = AnyElement<T> && sizeof(T) <= 2;

template <class T>
concept PackedInteger = PackedElement<T> && IntegerElement<T>;

// GPUs compare these as they are.
template <class T>
concept WideFloat = std::same_as<T, float> || std::same_as<T, double>;

}  // namespace warpfold::kernels::cuda
