// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a textbook kernel reads: the elements of a section, or the partials of the launch before. One kernel
// serves both, since all threads take the same side of the branch.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/launch.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op>
class Input {
 public:
  using Element = typename Op::Element;
  using State = typename Op::State;

  __host__ explicit Input(const Section& section)
      : elements_(reinterpret_cast<const Element*>(section.data)),
        count_(section.element_count),
        first_element_(section.first_element) {}
  __host__ __device__ Input(const State* partials, std::uint64_t count)
      : partials_(partials), count_(count) {}

  __host__ __device__ std::uint64_t count() const { return count_; }

  // The state of item `i`, below count(). Elements are lifted to whole States, not to LeafStates: these
  // algorithms have no leaves, and a thread may fold more elements than a LeafState can hold.
  __device__ __forceinline__ State At(const Op& op, std::uint64_t i) const {
    if (elements_ == nullptr) return partials_[i];
    return op.Widen(op.Lift(elements_[i], 0), first_element_ + i);
  }

  // The same, padded with the operator's identity to any length.
  __device__ __forceinline__ State AtOrIdentity(const Op& op, std::uint64_t i) const {
    return i < count_ ? At(op, i) : op.Identity();
  }

 private:
  const Element* elements_ = nullptr;
  const State* partials_ = nullptr;
  std::uint64_t count_ = 0;
  std::uint64_t first_element_ = 0;
};

}  // namespace warpfold::kernels::cuda::textbook
