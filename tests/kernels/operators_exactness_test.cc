// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the column "exactness" of docs/operators.md with the code.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/operators_document.h"
#include "tests/kernels/plain_loops.h"

namespace warpfold::kernels {
namespace {

constexpr std::uint64_t kModulus = 1'000'003;

// a b + c as computed for an entry of a product: floats fuse.
template <class R>
R AddTerm(R a, R b, R c) {
  if constexpr (std::is_floating_point_v<R>) {
    return std::fma(a, b, c);
  } else {
    return a * b + c;
  }
}

// The product of 2 x 2 matrices, or the composition of maps, from the first to the last, in R.
template <class R, class Reduce>
std::vector<R> PlainWhole(bool product, const std::vector<R>& entries, Reduce reduce) {
  std::vector<R> all = product ? std::vector<R>{1, 0, 0, 1} : std::vector<R>{1, 0};
  const std::size_t size = all.size();
  for (std::size_t i = 0; i < entries.size(); i += size) {
    const R* const x = &entries[i];
    const auto times = [&](std::size_t row, std::size_t column) {
      return reduce(AddTerm(all[2 * row + 1], x[2 + column], reduce(all[2 * row] * x[column])));
    };
    all = product ? std::vector<R>{times(0, 0), times(0, 1), times(1, 0), times(1, 1)}
                  : std::vector<R>{reduce(x[0] * all[0]), reduce(reduce(x[0] * all[1]) + x[1])};
  }
  return all;
}

template <class T>
void CheckWholeIntegers(const OperatorCase& c, const std::vector<std::byte>& data) {
  using U = std::make_unsigned_t<T>;
  std::vector<T> entries(data.size() / sizeof(T));
  std::memcpy(entries.data(), data.data(), data.size());
  for (const std::uint64_t modulus : {std::uint64_t{0}, kModulus}) {
    ReductionSpec spec = c.spec;
    if (modulus != 0) spec.modulus = modulus;
    const OperatorValue value = ReduceOnHost(ReductionPlan::Create(spec).value(), 0, data).Finish(0).value();
    const Int128 ring = modulus != 0 ? Int128{kModulus} : Int128{1} << (8 * sizeof(T));
    std::vector<Uint128> residues;
    for (const T x : entries) residues.push_back(static_cast<Uint128>((Int128{x} % ring + ring) % ring));
    const auto wanted = PlainWhole(c.name == "matrix_product", residues,
                                   [ring](Uint128 x) { return x % static_cast<Uint128>(ring); });
    ASSERT_EQ(value.entries.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(NumberOf(value.entries[i]),
                static_cast<long double>(static_cast<T>(static_cast<U>(wanted[i]))));
    }
  }
}

// Calls check.operator()<T>() for the case's type.
template <class F>
void ForRingType(const OperatorCase& c, F check) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if constexpr (RingElement<T>) {
      if (IndexOf(c.type) == kType) check.template operator()<T>();
    }
  });
}

void CheckWhole(const OperatorCase& c) {
  Random random;
  const auto data = [&](Flavour flavour) {
    return RandomElements(c.type, 4 * c.spec.shape.entries(), flavour, random);  // one run of a leaf
  };
  ForRingType(c, [&]<class T>() {
    if constexpr (IntegerElement<T>) {
      for (const Flavour flavour : {Flavour::kTame, Flavour::kExtreme, Flavour::kBits}) {
        CheckWholeIntegers<T>(c, data(flavour));
      }
    } else {
      const std::vector<std::byte> elements = data(Flavour::kTame);
      std::vector<T> entries(elements.size() / sizeof(T));
      std::memcpy(entries.data(), elements.data(), elements.size());
      const auto wanted = PlainWhole(c.name == "matrix_product", entries, [](T x) { return x; });
      const OperatorValue value =
          ReduceOnHost(ReductionPlan::Create(c.spec).value(), 0, elements).Finish(0).value();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(value.entries[i].double_value, static_cast<double>(wanted[i]));
      }
    }
  });
}

// Operators of which some result was not exact: a word that claims inexactness has to be true.
std::set<std::string>* Inexact() {
  static auto* const names = new std::set<std::string>;
  return names;
}

using Tolerance = std::function<long double(const PlainValue&)>;

// Random arrays of 1 to `longest` elements: the result is off by at most tolerance(plain value).
void CheckAgainstLoops(const OperatorCase& c, Flavour flavour, std::uint64_t longest,
                       const Tolerance& tolerance) {
  Random random;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t count = 1 + i % longest;
    const std::vector<std::byte> data = RandomElements(c.type, count, flavour, random);
    const absl::StatusOr<OperatorValue> value =
        ReduceOnHost(ReductionPlan::Create(c.spec).value(), 0, data).Finish(0);
    ASSERT_TRUE(value.ok()) << value.status();
    const std::vector<PlainValue> wanted = PlainValues(c.name, NumbersOf(c.type, data));
    ASSERT_EQ(value->entries.size(), wanted.size());
    for (std::size_t field = 0; field < wanted.size(); ++field) {
      const long double got = NumberOf(value->entries[field]);
      if (got == wanted[field].value) continue;  // infinities, too
      Inexact()->insert(c.name);
      ASSERT_LE(std::fabs(got - wanted[field].value), tolerance(wanted[field]))
          << "of " << count << " elements, field " << field;
    }
    // Sums of floats tie if rounding makes them equal.
    if (IsFloat(c.type) && c.name == "max_subarray_sum") continue;
    EXPECT_EQ(value->index, wanted[0].index);
    EXPECT_EQ(value->end_index, wanted[0].end_index);
  }
}

// Checks arrays that are too short to overflow, of every flavour for which such arrays exist.
Vocabulary::Check Within(Tolerance tolerance, bool of_any_size = false) {
  return [=](const OperatorCase& c) {
    const bool product = c.name == "product";
    CheckAgainstLoops(c, Flavour::kTame, product && !IsFloat(c.type) ? 5 : 100, tolerance);
    // Units hold -1, which would be the largest unsigned integer.
    if (IsFloat(c.type) || IsSigned(c.type)) CheckAgainstLoops(c, Flavour::kUnits, 60, tolerance);
    if (IsFloat(c.type) && !product) CheckAgainstLoops(c, Flavour::kWide, 100, tolerance);
    if (of_any_size) CheckAgainstLoops(c, Flavour::kExtreme, 100, tolerance);
  };
}

TEST(OperatorsDocumentTest, ColumnExactness) {
  constexpr long double kEpsilon = std::numeric_limits<double>::epsilon();
  const auto roundings = [](long double count) {
    // The plain value itself is rounded, to 64 bits.
    return
        [=](const PlainValue& wanted) { return (count + 0.001L) * kEpsilon / 2 * std::fabs(wanted.value); };
  };
  const auto scaled = [](const PlainValue& wanted) { return 32 * kEpsilon * wanted.scale; };
  const auto nothing = [](const PlainValue&) { return 0; };
  Vocabulary words({{"exact",
                     [&](const OperatorCase& c) {
                       const bool adds = absl::StrContains(c.name, "sum") || c.name == "product";
                       Within(nothing, /*of_any_size=*/!adds)(c);
                     }},
                    {"exact, rounded once", Within(roundings(1))},
                    {"root of the exact sum, rounded twice", Within(roundings(2))},
                    {"rounded in float64", Within(scaled)},
                    {"within 1e-14", Within([](const PlainValue& wanted) { return 1e-14L * wanted.scale; })},
                    {"modulo 2^bits or the modulus", CheckWhole},
                    {"rounded in the element type", CheckWhole},
                    {"as its fields alone", Within(scaled)}});
  CheckColumn("exactness", words.AsCheck());
  for (const auto& [name, row] : ReadOperatorsDocument()) {
    const std::string& cell = row.at("exactness");
    const bool says_so = absl::StrContains(cell, "rounded in float64") || absl::StrContains(cell, "within") ||
                         absl::StrContains(cell, "as its fields");
    EXPECT_TRUE(!says_so || Inexact()->contains(name)) << name << " is exact, but not in the document";
  }
}

}  // namespace
}  // namespace warpfold::kernels
