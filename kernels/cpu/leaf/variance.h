// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Variance. For integers: the sum and the sum of squares, one after the other; after the first of them the
// leaf is in the cache. For floats: two sweeps along the columns, with an array for each part of the states,
// so that compilers vectorise over columns and lanes.
#pragma once

#include "kernels/cpu/columns.h"
#include "kernels/cpu/leaf/lane_parts.h"
#include "kernels/cpu/leaf/sum.h"
#include "kernels/cpu/leaf/sum_of_squares.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/cpu/tuning.h"
#include "kernels/cpu/vectors.h"
#include "kernels/operators/variance.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <IntegerElement T>
struct ScalarLeaf<Variance<T, false>> {
  using LeafState = typename Variance<T, false>::LeafState;

  static LeafState Reduce(const Variance<T, false>&, const std::byte* data, std::uint64_t count) {
    return {AsWords(ScalarLeaf<Sum<T, false>>::Reduce(Sum<T, false>(), data, count)),
            AsWords(ScalarLeaf<SumOfSquares<T, false>>::Reduce(SumOfSquares<T, false>(), data, count))};
  }
};

// A leaf's elements in the form in which they are read: those of 16 bits are converted once, for both sweeps.
template <FloatElement T>
class ReadableLeaf {
 public:
  using R = Readable<T>;
  static constexpr std::uint32_t kElements = kLeafBytes / sizeof(T);

  inline __attribute__((always_inline)) ReadableLeaf(const std::byte* data, std::uint64_t count) {
    const auto elements_present = static_cast<std::uint32_t>(count);
    std::uint32_t i = 0;
    for (; i + kConvertedAtOnce <= elements_present; i += kConvertedAtOnce) {
      const RowElements<T, kConvertedAtOnce> elements(data + i * sizeof(T));
      for (std::uint32_t j = 0; j < kConvertedAtOnce; ++j) elements_[i + j] = elements[j];
    }
    for (; i < elements_present; ++i) elements_[i] = Read<T>(data, i);
  }
  inline __attribute__((always_inline)) const R* get() const { return elements_; }

 private:
  R elements_[kElements];
};

template <FloatElement T, bool kIgnoreNan>
struct ScalarLeaf<Variance<T, kIgnoreNan>> {
  using Op = Variance<T, kIgnoreNan>;
  using Reader = typename ReadingOperator<Op>::type;
  using R = Readable<T>;
  static constexpr std::uint32_t kElements = kLeafBytes / sizeof(T);
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kVectorLevel = Log2(kVector);
  static constexpr std::uint32_t kLaneElements = kElements / kLanes;

  static Moments Reduce(const Op&, const std::byte* data, std::uint64_t count) {
    return count == kElements ? FoldReadable(data, kElements) : FoldReadable(data, count);
  }

 private:
  // A sum and a count for each column of a lane, lane after lane.
  struct Sums {
    alignas(kSimdBytes) double sums[kColumns<T>];
    alignas(kSimdBytes) std::int64_t counts[kColumns<T>];  // if NaN are ignored
  };

  static inline __attribute__((always_inline)) Moments FoldReadable(const std::byte* data,
                                                                    std::uint64_t count) {
    if constexpr (HalfElement<T>) {
      const ReadableLeaf<T> leaf(data, count);
      return Fold(leaf.get(), count);
    } else {
      // Elements may have any alignment: they are read with loads that allow it.
      return Fold(reinterpret_cast<const R*>(data), count);
    }
  }

  static inline __attribute__((always_inline)) Moments Fold(const R* data, std::uint64_t count) {
    Sums columns;
    SweepSums(data, count, columns);
    double sums[kLanes];
    AddVectors<kColumns<T>>(columns.sums, sums);
    if constexpr (kIgnoreNan) {
      std::int64_t present[kLanes];
      FoldVectors<kColumns<T>>(
          columns.counts, [](std::int64_t a, std::int64_t b) { return a + b; }, present);
      return SweepAgain(data, count, sums, [&](std::uint32_t lane) { return present[lane]; });
    } else {
      return SweepAgain(data, count, sums, [=](std::uint32_t lane) {
        return PresentInLane(static_cast<std::uint32_t>(count), lane, kVectorLevel);
      });
    }
  }

  // present(lane): how many of the lane's elements are counted.
  template <class Present>
  static inline __attribute__((always_inline)) Moments SweepAgain(const R* data, std::uint64_t count,
                                                                  const double* sums,
                                                                  const Present& present) {
    bool is_full = true;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) is_full = is_full && present(lane) == kLaneElements;
    alignas(kSimdBytes) double centers[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      centers[lane] = sums[lane] / (is_full ? kLaneElements : static_cast<double>(present(lane)));
    }
    alignas(kSimdBytes) double column_centers[kColumns<T>];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      for (std::uint32_t j = 0; j < kVector; ++j) column_centers[lane * kVector + j] = centers[lane];
    }
    PrefetchNextLeaf(data);
    alignas(kSimdBytes) double deviation_columns[kColumns<T>];
    alignas(kSimdBytes) double square_columns[kColumns<T>];
    SweepDeviations(data, count, column_centers, deviation_columns, square_columns);
    double deviations[kLanes];
    double squares[kLanes];
    AddVectors<kColumns<T>>(deviation_columns, deviations);
    AddVectors<kColumns<T>>(square_columns, squares);
    return is_full ? JoinFull(centers, deviations, squares) : Join(centers, deviations, squares, present);
  }

  // The second sweep finds its leaf in the cache, and no prefetcher follows its walk. So it prefetches the
  // next leaf meanwhile: for float64 a part is enough, because its first sweep is in the order of memory.
  static inline __attribute__((always_inline)) void PrefetchNextLeaf(const R* data) {
    if constexpr (HalfElement<T>) return;  // `data` is a copy
    constexpr std::uint32_t kBytes = kDownColumns ? kLeafBytes : kPrefetchedBytes;
    const auto* const next = reinterpret_cast<const std::byte*>(data + kElements);
    for (std::uint32_t i = 0; i < kBytes; i += kCacheLineBytes) __builtin_prefetch(next + i);
  }

  // The sums of a row of float64 stay in registers from row to row. A row of float32 has more sums than there
  // are registers; loading and storing them would take half of the time, so it goes down the columns.
  static constexpr bool kDownColumns = !std::same_as<R, double>;

  static inline __attribute__((always_inline)) void Add(Simd<double> x, Simd<double>& sum,
                                                        Simd<std::int64_t>& present) {
    if constexpr (kIgnoreNan) {
      present -= x == x;  // a comparison gives -1 where it is true
      x = x == x ? x : Simd<double>{};
    }
    sum += x;
  }

  static inline __attribute__((always_inline)) void SweepSums(const R* data, std::uint64_t count,
                                                              Sums& columns) {
    const auto rows = static_cast<std::uint32_t>(count / kColumns<T>);
    const auto rest = static_cast<std::uint32_t>(count % kColumns<T>);
    constexpr std::uint32_t kRowVectors = kColumns<T> / kSimdDoubles;
    auto* const sums = reinterpret_cast<Simd<double>*>(columns.sums);
    auto* const counts = reinterpret_cast<Simd<std::int64_t>*>(columns.counts);
    for (std::uint32_t i = 0; i < kRowVectors; ++i) sums[i] = -Simd<double>{};
    for (std::uint32_t i = 0; kIgnoreNan && i < kRowVectors; ++i) counts[i] = Simd<std::int64_t>{};
    const auto at = [data](std::uint32_t row, std::uint32_t i) {
      return DoublesAt(data + row * kColumns<T> + i * kSimdDoubles);
    };
    if constexpr (kDownColumns) {
      for (std::uint32_t i = 0; i < kRowVectors; ++i) {
        for (std::uint32_t row = 0; row < rows; ++row) Add(at(row, i), sums[i], counts[i]);
      }
    } else {
      for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t i = 0; i < kRowVectors; ++i) Add(at(row, i), sums[i], counts[i]);
      }
    }
    for (std::uint32_t j = 0; j < rest; ++j) {
      const auto first =
          Reader().LiftFirst(Load<R>(reinterpret_cast<const std::byte*>(data + rows * kColumns<T>), j));
      if constexpr (kIgnoreNan) {
        columns.sums[j] += first.sum;
        columns.counts[j] += first.count;
      } else {
        columns.sums[j] += first;
      }
    }
  }

  // The deviations of each column's elements from its center, and the squares of these, from row to row. It
  // takes a few columns at a time, whose sums stay in registers: the leaf is in the cache by now.
  static inline __attribute__((always_inline)) void SweepDeviations(const R* data, std::uint64_t count,
                                                                    const double* centers, double* sums,
                                                                    double* squares) {
    const auto rows = static_cast<std::uint32_t>(count / kColumns<T>);
    const auto rest = static_cast<std::uint32_t>(count % kColumns<T>);
    for (std::uint32_t column = 0; column < kColumns<T>; column += kVarianceVectors * kSimdDoubles) {
      SweepBlock(data + column, rows, centers + column, sums + column, squares + column);
    }
    for (std::uint32_t j = 0; j < rest; ++j) {
      const Deviations x = Reader().LiftSecond(
          Load<R>(reinterpret_cast<const std::byte*>(data + rows * kColumns<T>), j), centers[j]);
      sums[j] += x.sum;
      squares[j] += x.squares;
    }
  }

  static inline __attribute__((always_inline)) void SweepBlock(const R* data, std::uint32_t rows,
                                                               const double* centers, double* sums,
                                                               double* squares) {
    Simd<double> center[kVarianceVectors];
    Simd<double> sum[kVarianceVectors] = {};
    Simd<double> square[kVarianceVectors] = {};
    for (std::uint32_t i = 0; i < kVarianceVectors; ++i) center[i] = DoublesOf(centers + i * kSimdDoubles);
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t i = 0; i < kVarianceVectors; ++i) {
        const Simd<double> x = DoublesAt(data + row * kColumns<T> + i * kSimdDoubles);
        Simd<double> deviation = x - center[i];
        if constexpr (kIgnoreNan) deviation = x == x ? deviation : Simd<double>{};
        sum[i] += deviation;
        square[i] += deviation * deviation;
      }
    }
    for (std::uint32_t i = 0; i < kVarianceVectors; ++i) {
      Store(sum[i], sums + i * kSimdDoubles);
      Store(square[i], squares + i * kSimdDoubles);
    }
  }

  static inline __attribute__((always_inline)) Moments JoinFull(const double* centers, const double* sums,
                                                                const double* squares) {
    LaneParts lanes[kLaneVectors];
    for (std::uint32_t i = 0; i < kLaneVectors; ++i) {
      const std::uint32_t lane = i * kSimdDoubles;
      lanes[i] = PartsAround(DoublesOf(centers + lane), DoublesOf(sums + lane), DoublesOf(squares + lane),
                             kLaneElements);
    }
    return FoldEqualLanes(lanes, kLaneElements);
  }

  template <class Present>
  static Moments Join(const double* centers, const double* sums, const double* squares,
                      const Present& present) {
    Moments lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto count = static_cast<std::uint32_t>(present(lane));
      lanes[lane] =
          count == 0 ? Moments{0, 0, 0, 0} : MomentsAround(centers[lane], sums[lane], squares[lane], count);
    }
    return FoldLanes(lanes, MergeMoments);
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
