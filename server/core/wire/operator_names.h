// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of the proto's operators, element types and algorithms, as kernels and people use them:
// OPERATOR_BIT_AND is "bit_and". They are taken from the proto's descriptors, so that a new enum value needs
// no line here.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/algorithm.h"
#include "kernels/types.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// Empty for OPERATOR_UNSPECIFIED and for numbers that this proto does not have.
std::string OperatorName(v1::Operator op);
// OPERATOR_UNSPECIFIED if the proto has no such operator.
v1::Operator OperatorByName(absl::string_view name);

std::optional<ElementType> ElementTypeFromProto(v1::ElementType type);
v1::ElementType ElementTypeToProto(ElementType type);

// Empty for numbers that this proto does not have. UNSPECIFIED is kAuto.
std::optional<kernels::Algorithm> AlgorithmFromProto(v1::Algorithm algorithm);
v1::Algorithm AlgorithmToProto(kernels::Algorithm algorithm);

}  // namespace warpfold::server
