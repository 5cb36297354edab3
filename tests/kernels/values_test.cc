// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Long arrays compared with plain loops that know nothing of the canonical order: exact in 128 bits, or in
// long double within the error that a tree of additions may make.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/portable.h"
#include "kernels/reduction.h"
#include "kernels/segment_out.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/long_arrays.h"

namespace warpfold::kernels {
namespace {

TEST(ValuesTest, SumAndMean) {
  ForEachElementType([]<class T>(ElementType type) {
    const std::vector<T> array = RandomArray<T>(type, kCount, Flavour::kTame);
    const double mean = Reduce("mean", type, array).entries[0].double_value;
    const auto sum = Number<T>(Reduce("sum", type, array).entries[0]);
    if constexpr (FloatElement<T>) {
      long double exact = 0;
      long double magnitude = 0;
      for (const auto x : ValuesOf(array)) {
        exact += x;
        magnitude += std::fabs(x);
      }
      // No element passes through more additions than this.
      const int depth = 8 + 2 + 5 + 20;
      const double error = static_cast<double>(magnitude) * depth * std::numeric_limits<double>::epsilon();
      EXPECT_NEAR(sum, static_cast<double>(exact), error);
      EXPECT_NEAR(mean, static_cast<double>(exact / kCount), error / kCount);
    } else {
      Int128 exact = 0;
      for (const auto x : ValuesOf(array)) exact += x;
      EXPECT_EQ(static_cast<Int128>(sum), exact);
      EXPECT_DOUBLE_EQ(mean, static_cast<double>(static_cast<long double>(exact) / kCount));
    }
  });
}

TEST(ValuesTest, WrappedSumAndProduct) {
  ForEachElementType([]<class T>(ElementType type) {
    if constexpr (IntegerElement<T>) {
      const std::vector<T> array = RandomArray<T>(type, kCount, Flavour::kBits);
      std::uint64_t sum = 0;
      std::uint64_t product = 1;
      std::vector<T> odd = array;
      for (T& x : odd) x = BitCast<T>(static_cast<Bits<T>>(BitCast<Bits<T>>(x) | 1));  // or it is soon zero
      for (const auto x : ValuesOf(array)) sum += static_cast<std::uint64_t>(x);
      for (const auto x : ValuesOf(odd)) product *= static_cast<std::uint64_t>(x);
      ReductionSpec wrap;
      wrap.wrap_overflow = true;
      EXPECT_EQ(Number<T>(Reduce<T>(wrap, "sum", type, array).entries[0]), static_cast<Value<T>>(sum));
      EXPECT_EQ(Number<T>(Reduce<T>(wrap, "product", type, odd).entries[0]), static_cast<Value<T>>(product));
    }
  });
}

TEST(ValuesTest, FloatProduct) {
  constexpr ElementType kType = ElementType::kFloat64;
  std::vector<double> array = RandomArray<double>(kType, kCount, Flavour::kTame);
  long double exact = 1;
  for (double& x : array) {
    x = 1 + x / 1024;  // so that the product stays in range
    exact *= x;
  }
  const double product = Reduce("product", kType, array).entries[0].double_value;
  EXPECT_NEAR(product / static_cast<double>(exact), 1.0, kCount * std::numeric_limits<double>::epsilon());
}

TEST(ValuesTest, ExtremaAndWhereTheyAre) {
  ForEachElementType([]<class T>(ElementType type) {
    const std::vector<T> array = RandomArray<T>(type, kCount, Flavour::kTame);
    const std::vector<Value<T>> values = ValuesOf(array);
    const auto least = std::min_element(values.begin(), values.end());
    const auto largest = std::max_element(values.begin(), values.end());
    const OperatorValue argmin = Reduce("argmin", type, array);
    const OperatorValue argmax = Reduce("argmax", type, array);
    EXPECT_EQ(Number<T>(Reduce("min", type, array).entries[0]), *least);
    EXPECT_EQ(Number<T>(Reduce("max", type, array).entries[0]), *largest);
    EXPECT_EQ(Number<T>(argmin.entries[0]), *least);
    EXPECT_EQ(Number<T>(argmax.entries[0]), *largest);
    EXPECT_EQ(argmin.index, static_cast<std::uint64_t>(least - values.begin()));
    EXPECT_EQ(argmax.index, static_cast<std::uint64_t>(largest - values.begin()));
  });
}

TEST(ValuesTest, BitsAndCounts) {
  ForEachElementType([]<class T>(ElementType type) {
    const std::vector<T> units = RandomArray<T>(type, kCount, Flavour::kUnits);
    const auto nonzero = std::count_if(units.begin(), units.end(), [](T x) { return ValueOf(x) != 0; });
    const OperatorValue count = Reduce("count_nonzero", type, units);
    EXPECT_EQ(count.entries[0].uint64_value, static_cast<std::uint64_t>(nonzero));
    EXPECT_EQ(Reduce("all", type, units).entries[0].bool_value,
              static_cast<std::uint64_t>(nonzero) == kCount);
    EXPECT_TRUE(Reduce("any", type, units).entries[0].bool_value);
    if constexpr (IntegerElement<T>) {
      const std::vector<T> array = RandomArray<T>(type, 7, Flavour::kBits);
      const std::vector<Value<T>> values = ValuesOf(array);
      Value<T> all = values[0];
      Value<T> any = values[0];
      Value<T> odd = values[0];
      for (std::size_t i = 1; i < values.size(); ++i) {
        all = static_cast<Value<T>>(all & values[i]);
        any = static_cast<Value<T>>(any | values[i]);
        odd = static_cast<Value<T>>(odd ^ values[i]);
      }
      EXPECT_EQ(Number<T>(Reduce("bit_and", type, array).entries[0]), all);
      EXPECT_EQ(Number<T>(Reduce("bit_or", type, array).entries[0]), any);
      EXPECT_EQ(Number<T>(Reduce("bit_xor", type, array).entries[0]), odd);
    }
  });
}

// The product of d x d matrices modulo `ring`, matrix by matrix; entries in [0, ring).
template <class T>
std::vector<Uint128> ProductModulo(const std::vector<T>& array, std::size_t d, Uint128 ring) {
  const auto residue = [ring](Int128 x) {
    const auto signed_ring = static_cast<Int128>(ring);
    return static_cast<Uint128>((x % signed_ring + signed_ring) % signed_ring);
  };
  std::vector<Uint128> product(d * d);
  for (std::size_t i = 0; i < d; ++i) product[i * (d + 1)] = 1;
  for (std::size_t begin = 0; begin < array.size(); begin += product.size()) {
    std::vector<Uint128> next(product.size());
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = 0; j < d; ++j) {
        for (std::size_t k = 0; k < d; ++k) {
          const Uint128 term = product[i * d + k] * residue(array[begin + k * d + j]);
          next[i * d + j] = (next[i * d + j] + term % ring) % ring;
        }
      }
    }
    product = next;
  }
  return product;
}

template <class T>
void CheckMatrixProduct(ElementType type, std::uint32_t d, std::uint64_t count, std::uint64_t modulus) {
  SCOPED_TRACE(testing::Message() << d << " x " << d << " modulo " << modulus);
  std::vector<T> array = RandomArray<T>(type, count * d * d, Flavour::kBits);
  MakeUnitLike(type, d, std::as_writable_bytes(std::span(array)));
  ReductionSpec spec;
  spec.shape = {d, d};
  if (modulus != 0) spec.modulus = modulus;
  const Uint128 ring = modulus != 0 ? Uint128{modulus} : Uint128{1} << (8 * sizeof(T));
  const auto entries = [&] { return Reduce<T>(spec, "matrix_product", type, array).entries; };
  const std::vector<Uint128> expected = ProductModulo(array, d, ring);
  const std::vector<Scalar> product = entries();
  ASSERT_EQ(product.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(Number<T>(product[i]), static_cast<T>(expected[i])) << i;
  }

  const auto tenth = array.begin() + 10 * d * d;
  std::swap_ranges(tenth, tenth + d * d, tenth + d * d);
  const std::vector<Scalar> swapped = entries();
  EXPECT_FALSE(std::equal(product.begin(), product.end(), swapped.begin(),
                          [](const Scalar& a, const Scalar& b) { return ColumnBits(a) == ColumnBits(b); }));
}

TEST(ValuesTest, MatrixProduct) {
  ForEachElementType([]<class T>(ElementType type) {
    if constexpr (IntegerElement<T> && RingElement<T>) {
      const auto largest = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
      for (const std::uint64_t modulus : {std::uint64_t{0}, std::uint64_t{1'000'000'007}, largest}) {
        CheckMatrixProduct<T>(type, 4, 5'003, modulus);
        CheckMatrixProduct<T>(type, 9, 203, modulus);
        CheckMatrixProduct<T>(type, 32, 13, modulus);
      }
    }
  });
}

}  // namespace
}  // namespace warpfold::kernels
