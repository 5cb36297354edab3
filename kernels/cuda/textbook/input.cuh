// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a textbook kernel reads: the elements of a section, or the partials of the launch before. One kernel
// serves both. It checks once which of the two it has, before its loop, so that no load has a branch.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/textbook/launch.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda::textbook {

// kStatesAreElements: a state has the bits of an element and the same meaning. The partials of such an
// operator are an array like any other, as in the published forms (natural_sum.h).
template <class Op>
concept StatesAreElements = requires {
  requires Op::kStatesAreElements;
};

// Elements are lifted to whole States, not to LeafStates: these algorithms have no leaves, and a thread may
// fold more elements than a LeafState can hold.
template <Operator Op>
struct Elements {
  const typename Op::Element* data;
  std::uint64_t first_element;

  __device__ __forceinline__ typename Op::State At(const Op& op, std::uint64_t i) const {
    return op.Widen(op.Lift(data[i], 0), first_element + i);
  }
};

template <Operator Op>
struct Partials {
  const typename Op::State* data;

  __device__ __forceinline__ typename Op::State At(const Op&, std::uint64_t i) const { return data[i]; }
};

template <Operator Op>
class Input {
 public:
  using Element = typename Op::Element;
  using State = typename Op::State;

  __host__ explicit Input(const Section& section)
      : data_(section.data), count_(section.element_count), first_element_(section.first_element) {}
  __host__ __device__ Input(const State* partials, std::uint64_t count)
      : data_(partials), count_(count), is_partials_(true) {}

  __host__ __device__ std::uint64_t count() const { return count_; }

  // Returns work(items), where items.At(op, i) is the state of item `i`, which is below count(). All threads
  // take the same branch.
  template <class Work>
  __device__ __forceinline__ auto With(Work work) const {
    const Elements<Op> elements = {static_cast<const Element*>(data_), first_element_};
    if constexpr (StatesAreElements<Op>) {
      return work(elements);
    } else {
      return is_partials_ ? work(Partials<Op>{static_cast<const State*>(data_)}) : work(elements);
    }
  }

  // The state of one item, padded with the operator's identity to any length: for kernels whose threads load
  // only one or two items. Loops call With.
  __device__ __forceinline__ State AtOrIdentity(const Op& op, std::uint64_t i) const {
    if (i >= count_) return op.Identity();
    return With([&](const auto& items) { return items.At(op, i); });
  }

 private:
  const void* data_ = nullptr;
  std::uint64_t count_ = 0;
  std::uint64_t first_element_ = 0;
  bool is_partials_ = false;
};

}  // namespace warpfold::kernels::cuda::textbook
