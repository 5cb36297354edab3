// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Long arrays of every element type, and their reductions, for the tests of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "kernels/reduction.h"
#include "tests/kernels/elements.h"

namespace warpfold::kernels {

inline constexpr std::uint64_t kCount = 300'007;

template <class T>
std::vector<T> RandomArray(ElementType type, std::uint64_t count, Flavour flavour) {
  Random random(count);
  const std::vector<std::byte> bytes = RandomElements(type, count, flavour, random);
  std::vector<T> array(count);
  std::memcpy(array.data(), bytes.data(), bytes.size());
  return array;
}

template <class T>
OperatorValue Reduce(ReductionSpec spec, const std::string& op, ElementType type, std::span<const T> array) {
  spec.operators = {op};
  spec.element_type = type;
  return ReduceOnHost(ReductionPlan::Create(spec).value(), 0, std::as_bytes(array)).Finish(0).value();
}

template <class T>
OperatorValue Reduce(const std::string& op, ElementType type, const std::vector<T>& array) {
  return Reduce<T>({}, op, type, array);
}

template <class T>
std::vector<Value<T>> ValuesOf(const std::vector<T>& array) {
  std::vector<Value<T>> values;
  for (const T x : array) values.push_back(ValueOf(x));
  return values;
}

template <class T>
Wide<T> Number(const Scalar& scalar) {
  if constexpr (FloatElement<T>) {
    EXPECT_EQ(scalar.kind, Scalar::Kind::kDouble);
    return scalar.double_value;
  } else if (scalar.kind == Scalar::Kind::kBool) {
    return scalar.bool_value;
  } else if constexpr (kIsSigned<T>) {
    EXPECT_EQ(scalar.kind, Scalar::Kind::kInt64);
    return scalar.int64_value;
  } else {
    EXPECT_EQ(scalar.kind, Scalar::Kind::kUint64);
    return scalar.uint64_value;
  }
}

// Calls check.operator()<T>(type) for each element type.
template <class F>
void ForEachElementType(F check) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    const auto type = ElementTypeAt(kType);
    SCOPED_TRACE(std::string(ElementTypeName(type)));
    check.template operator()<T>(type);
  });
}

}  // namespace warpfold::kernels
