// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Kinds of elements that several files of this folder distinguish.
#pragma once

#include <concepts>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cuda {

// A word holds several of them, and one instruction processes a whole word.
template <class T>
concept PackedElement = AnyElement<T> && sizeof(T) <= 2;

template <class T>
concept PackedInteger = PackedElement<T> && IntegerElement<T>;

// GPUs compare these directly.
template <class T>
concept WideFloat = std::same_as<T, float> || std::same_as<T, double>;

}  // namespace warpfold::kernels::cuda
