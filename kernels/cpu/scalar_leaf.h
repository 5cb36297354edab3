// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// ScalarLeaf<Op>: how a CPU reduces one leaf of scalars with a commutative operator. The primary template
// works for every operator: it folds along the columns and lanes of the canonical order, or in memory order
// if the order does not affect the result. An operator with a faster implementation of the same result
// specialises it in leaf/<operator>.h, for example leaf/sum.h. The generated source of the operator's row
// includes that file, because it has this name (kernels/row.in).
//
// Each specialisation is declared at the end of this header, so that code that forgets to include its file
// does not compile instead of silently using the slow primary template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/elements.h"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// The operator over the type that elements are read as: float instead of float16 and bfloat16.
template <class Op>
struct ReadingOperator {
  using type = Op;
};
template <template <class, bool> class Family, HalfElement T, bool kIgnoreNan>
struct ReadingOperator<Family<T, kIgnoreNan>> {
  using type = Family<float, kIgnoreNan>;
};

template <ScalarOperator Op>
struct ColumnsLeaf {
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using Reader = typename ReadingOperator<Op>::type;
  using ReaderState = typename Reader::LeafState;

  // Reduces 0 < `count` elements, at most as many as a leaf has. The request's operator is not used: its
  // parameters (wrap, ddof) matter when a state is finished, and Reader, which reads the elements, has none.
  //
  // This is not inlined: within a loop over leaves GCC 12 generates code for it that takes 6 ns longer for 4
  // floats.
  static __attribute__((noinline)) LeafState Reduce(const Op&, const std::byte* data, std::uint64_t count) {
    const Reader op;
    ReaderState lanes[kLanes];
    const auto combine = [&op](const ReaderState& a, const ReaderState& b) { return op.Combine(a, b); };
    if constexpr (TwoSweeps<Op>) {
      SweepTwice(op, data, count, lanes);
    } else {
      ReaderState columns[kColumns<T>];
      SweepRows<T>(
          data, count, op.LeafIdentity(),
          [&op](Readable<T> x, std::uint32_t row, std::uint32_t column) {
            return op.Lift(x, row * kColumns<T> + column);
          },
          combine, columns);
      FoldVectors<kColumns<T>>(columns, combine, lanes);
    }
    return BitCast<LeafState>(FoldLanes(lanes, combine));
  }

 private:
  static void SweepTwice(const Reader& op, const std::byte* data, std::uint64_t count,
                         ReaderState* lanes) requires TwoSweeps<Op> {
    using First = typename Reader::First;
    using Second = typename Reader::Second;
    constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
    constexpr std::uint32_t kVectorLevel = Log2(kVector);
    First first_columns[kColumns<T>];
    First first[kLanes];
    const auto combine_first = [&op](const First& a, const First& b) { return op.CombineFirst(a, b); };
    // A lane without elements becomes the identity below. In the others, FirstIdentity() is used for columns
    // that have none.
    SweepRows<T>(
        data, count, op.FirstIdentity(),
        [&op](Readable<T> x, std::uint32_t, std::uint32_t) { return op.LiftFirst(x); }, combine_first,
        first_columns);
    FoldVectors<kColumns<T>>(first_columns, combine_first, first);

    double centers[kLanes];
    double column_centers[kColumns<T>];
    std::uint32_t present[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      present[lane] = PresentInLane(static_cast<std::uint32_t>(count), lane, kVectorLevel);
      centers[lane] = op.Center(first[lane], present[lane]);
      for (std::uint32_t j = 0; j < kVector; ++j) column_centers[lane * kVector + j] = centers[lane];
    }
    Second second_columns[kColumns<T>];
    Second second[kLanes];
    const auto combine_second = [&op](const Second& a, const Second& b) { return op.CombineSecond(a, b); };
    SweepRows<T>(
        data, count, Second{},
        [&](Readable<T> x, std::uint32_t, std::uint32_t column) {
          return op.LiftSecond(x, column_centers[column]);
        },
        combine_second, second_columns);
    FoldVectors<kColumns<T>>(second_columns, combine_second, second);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = present[lane] == 0 ? op.LeafIdentity()
                                       : op.Join(first[lane], centers[lane], second[lane], present[lane]);
    }
  }
};

// Folds elements in the order of memory, which compilers and prefetchers handle best.
template <ScalarOperator Op>
struct MemoryOrderLeaf {
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;

  static LeafState Reduce(const Op& op, const std::byte* data, std::uint64_t count) {
    constexpr std::uint64_t kElements = kLeafBytes / sizeof(T);
    // For whole leaves the compiler knows the length and unrolls the loop.
    return count == kElements ? Fold(op, data, kElements) : Fold(op, data, count);
  }

 private:
  static inline __attribute__((always_inline)) LeafState Fold(const Op& op, const std::byte* data,
                                                              std::uint64_t count) {
    LeafState state = op.LeafIdentity();
    for (std::uint64_t i = 0; i < count; ++i) {
      state = op.Combine(state, op.Lift(Load<T>(data, i), static_cast<std::uint32_t>(i)));
    }
    return state;
  }
};

template <ScalarOperator Op>
using PlainLeaf = std::conditional_t<AnyOrder<Op>, MemoryOrderLeaf<Op>, ColumnsLeaf<Op>>;

template <ScalarOperator Op>
struct ScalarLeaf : PlainLeaf<Op> {};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Argmax;
template <class T, bool kIgnoreNan>
struct Argmin;
template <class T, bool kIgnoreNan>
struct CountNonzero;
template <class T, bool kIgnoreNan>
struct Describe;
template <class T, bool kIgnoreNan>
struct L1Norm;
template <class T, bool kIgnoreNan>
struct Product;
template <class T, bool kIgnoreNan>
struct Sum;
template <class T, bool kIgnoreNan>
struct SumOfSquares;
template <class T, bool kIgnoreNan>
struct Variance;

namespace cpu::WARPFOLD_ISA {

template <class T, bool kIgnoreNan>
struct ScalarLeaf<Argmax<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Argmin<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<CountNonzero<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Describe<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<L1Norm<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Product<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Sum<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<SumOfSquares<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct ScalarLeaf<Variance<T, kIgnoreNan>>;

}  // namespace cpu::WARPFOLD_ISA
}  // namespace warpfold::kernels
