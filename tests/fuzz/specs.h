// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Specs of every kind, most of which a server accepts.
#pragma once

#include "tests/fuzz/input.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::fuzz {

inline v1::ReductionSpec AnySpec(Input& input) {
  v1::ReductionSpec spec;
  for (std::uint64_t count = 1 + (input.OneIn(4) ? input.Below(3) : 0); count > 0; --count) {
    spec.add_operators(static_cast<v1::Operator>(input.Below(v1::Operator_MAX + 2)));
  }
  spec.set_element_type(static_cast<v1::ElementType>(input.Below(v1::ElementType_MAX + 2)));
  if (input.OneIn(4)) spec.set_nan_policy(static_cast<v1::NanPolicy>(input.Below(v1::NanPolicy_MAX + 2)));
  if (input.OneIn(4)) {
    spec.set_overflow_policy(static_cast<v1::OverflowPolicy>(input.Below(v1::OverflowPolicy_MAX + 2)));
  }
  if (input.OneIn(4)) {
    spec.mutable_matrix_shape()->set_rows(static_cast<std::uint32_t>(input.Below(4)));
    spec.mutable_matrix_shape()->set_columns(static_cast<std::uint32_t>(input.Below(4)));
  }
  if (input.OneIn(8)) spec.set_modulus(input.Number());
  if (input.OneIn(8)) spec.set_ddof(static_cast<std::uint32_t>(input.Below(4)));
  return spec;
}

}  // namespace warpfold::fuzz
