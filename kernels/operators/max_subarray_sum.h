// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The largest sum of a contiguous part of the array that is not empty, and where that part is: the first part
// with that sum, and the shortest that starts there. Integers: exact. Floats: in float64, and NaN makes the
// result NaN. Ignored NaN are in no part's sum, but a part may extend across them.
//
// The state is that of the divide-and-conquer algorithm (J. Bentley, "Programming Pearls", column 8): the
// total, and the best part overall, at the start and at the end.
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/operators/integer_result.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/subarray_keys.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

// Sum is exact or a double; Index counts elements of a leaf or of the array.
template <class Sum, class Index>
struct SubarraySums {
  Sum total;
  Sum best;
  Sum prefix;  // the best part that starts at the first element
  Sum suffix;  // the best part that ends at the last one
  Index best_begin;
  Index best_end;
  Index prefix_end;
  Index suffix_begin;

  // For no elements, all members are 0; otherwise every prefix has an end.
  WARPFOLD_FN bool IsEmpty() const { return prefix_end == 0; }
};

// kMayBeEmpty: whether one of the two may have no elements while the other has some.
template <bool kMayBeEmpty, class Sum, class Index>
WARPFOLD_FN SubarraySums<Sum, Index> JoinSubarrays(const SubarraySums<Sum, Index>& a,
                                                   const SubarraySums<Sum, Index>& b) {
  if constexpr (kMayBeEmpty) {
    if (a.IsEmpty()) return b;
    if (b.IsEmpty()) return a;
  }
  SubarraySums<Sum, Index> c = a;
  c.total = a.total + b.total;
  // Among equal sums the one that starts first wins, then the one that ends first.
  const Sum across = a.suffix + b.prefix;
  if (across > c.best || (across == c.best && a.suffix_begin < c.best_begin)) {
    c.best = across;
    c.best_begin = a.suffix_begin;
    c.best_end = b.prefix_end;
  }
  if (b.best > c.best) {  // both of the others start before it
    c.best = b.best;
    c.best_begin = b.best_begin;
    c.best_end = b.best_end;
  }
  const Sum longer_prefix = a.total + b.prefix;
  if (longer_prefix > a.prefix) {
    c.prefix = longer_prefix;
    c.prefix_end = b.prefix_end;
  }
  const Sum longer_suffix = a.suffix + b.total;
  const bool longer = longer_suffix >= b.suffix;
  c.suffix = longer ? longer_suffix : b.suffix;
  c.suffix_begin = longer ? a.suffix_begin : b.suffix_begin;
  return c;
}

template <AnyElement T>
struct SubarrayLeafOf {
  using type = SubarraySums<double, std::uint32_t>;
};
template <IntegerElement T>
struct SubarrayLeafOf<T> {
  using type = SubarrayKeys<T>;
};

template <class T, bool kIgnoreNan>
struct MaxSubarraySum;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct MaxSubarraySum<T, kIgnoreNan> {
  using Total = std::conditional_t<FloatElement<T>, double, Int128>;
  using LeafState = typename SubarrayLeafOf<T>::type;
  using Sums = SubarraySums<Total, std::uint64_t>;
  static constexpr int kSumWords = sizeof(Total) / 8;
  static constexpr int kPresentWord = 4 * kSumWords + 4;
  struct State {
    // The members of Sums, the lowest words first, and then 0 if there are no elements, or else 1.
    std::uint64_t words[kPresentWord + 1];
  };
  using Element = T;
  static constexpr const char* kName = "max_subarray_sum";
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = false;
  static constexpr const char* kNeverWraps = IntegerElement<T> ? "sums modulo 2^bits have no order" : nullptr;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kCombinesEqual = true;
  static constexpr bool kAppends = true;
  static constexpr bool kMoves = true;
  // Sums of unsigned elements only grow, so CPUs predict these comparisons well.
  static constexpr bool kHostAppends = IntegerElement<T> && !kIsSigned<T>;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t offset) const {
    if constexpr (FloatElement<T>) {
      if constexpr (kIgnoreNan) {
        if (IsNan(x)) return LeafIdentity();
      }
      const auto value = static_cast<double>(ValueOf(x));
      return {value, value, value, value, offset, offset + 1, offset + 1, offset};
    } else {
      return LeafState::Of(x, offset);
    }
  }
  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const {
    if constexpr (FloatElement<T>) {
      return JoinSubarrays<true>(a, b);
    } else {
      return LeafState::Join(a, b);
    }
  }
  // Two states of equally many elements are either both empty or both not, unless NaN are ignored.
  WARPFOLD_FN LeafState CombineEqual(const LeafState& a, const LeafState& b) const {
    if constexpr (FloatElement<T>) {
      return JoinSubarrays<kIgnoreNan>(a, b);
    } else {
      return LeafState::Join(a, b);
    }
  }
  WARPFOLD_FN LeafState Append(const LeafState& s, T x, std::uint32_t offset) const {
    if constexpr (FloatElement<T>) {
      return AppendFloat(s, x, offset);
    } else {
      return s.Append(x, offset);
    }
  }
  WARPFOLD_FN LeafState Moved(LeafState s, std::uint32_t distance) const {
    if constexpr (FloatElement<T>) {
      if (kIgnoreNan && s.IsEmpty()) return s;
      s.best_begin += distance;
      s.best_end += distance;
      s.prefix_end += distance;
      s.suffix_begin += distance;
      return s;
    } else {
      return s.Moved(distance);
    }
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    return Packed(JoinSubarrays<true>(Unpacked(a), Unpacked(b)));
  }
  WARPFOLD_FN State CombineEqual(const State& a, const State& b) const {
    return Packed(JoinSubarrays<kIgnoreNan>(Unpacked(a), Unpacked(b)));
  }
  WARPFOLD_FN State Widen(const LeafState& s, std::uint64_t first) const {
    if (s.IsEmpty()) return Identity();
    if constexpr (FloatElement<T>) {
      return Packed({s.total, s.best, s.prefix, s.suffix, first + s.best_begin, first + s.best_end,
                     first + s.prefix_end, first + s.suffix_begin});
    } else {
      using L = LeafState;
      return Packed({L::SumOf(s.total), L::SumOf(s.best), L::SumOf(s.prefix), L::SumOf(s.suffix),
                     first + L::BeginOf(s.best), first + L::EndOf(s.best), first + L::EndOf(s.prefix),
                     first + L::BeginOf(s.suffix)});
    }
  }
  WARPFOLD_FN LeafState LeafIdentity() const {
    if constexpr (FloatElement<T>) {
      return {0, 0, 0, 0, 0, 0, 0, 0};
    } else {
      return LeafState::Empty();
    }
  }
  WARPFOLD_FN State Identity() const { return Packed({0, 0, 0, 0, 0, 0, 0, 0}); }
  State Canonical(const State& s) const requires FloatElement<T> {
    Sums sums = Unpacked(s);
    for (double* sum : {&sums.total, &sums.best, &sums.prefix, &sums.suffix}) *sum = CanonicalNan(*sum);
    return Packed(sums);
  }

  bool IsPossible(const State& state, std::uint64_t first, std::uint64_t count) const {
    const Sums s = Unpacked(state);
    const std::uint64_t present = state.words[kPresentWord];
    if (present == 0) {  // nothing but NaN
      return kIgnoreNan && std::all_of(std::begin(state.words), std::end(state.words),
                                       [](std::uint64_t word) { return word == 0; });
    }
    const auto inside = [&](std::uint64_t begin, std::uint64_t end) {
      return begin >= first && begin < end && end - first <= count;
    };
    const std::uint64_t end = first + count;
    if (present != 1 || !inside(s.best_begin, s.best_end) || !inside(first, s.prefix_end) ||
        !inside(s.suffix_begin, end)) {
      return false;
    }
    // Each one is a sum of as many elements as it covers, and the best is no smaller than the others.
    if (!IsSumOver(s.total, count) || !IsSumOver(s.best, s.best_end - s.best_begin) ||
        !IsSumOver(s.prefix, s.prefix_end - first) || !IsSumOver(s.suffix, end - s.suffix_begin)) {
      return false;
    }
    if constexpr (FloatElement<T>) {
      // A part's sum is NaN only if there is a NaN in it, which makes the total NaN. inf - inf may make the
      // total NaN, too, but no comparison prefers it.
      const bool has_nan = s.best != s.best || s.prefix != s.prefix || s.suffix != s.suffix;
      if (has_nan && (kIgnoreNan || s.total == s.total)) return false;
    } else {
      const auto best = static_cast<Int128>(s.best);
      const auto prefix = static_cast<Int128>(s.prefix);
      const auto suffix = static_cast<Int128>(s.suffix);
      const auto total = static_cast<Int128>(s.total);
      if (best < prefix || best < suffix || prefix < total || suffix < total) return false;
      // A best part at an end of the range is also the best part of that end.
      if (s.best_begin == first && s.best_end != s.prefix_end) return false;
      if (s.best_end == end && s.best_begin != s.suffix_begin) return false;
    }
    return HasOneSumForEachPart(s, first, end);
  }

  WARPFOLD_FN Outcome Finish(const State& state, std::uint64_t) const {
    const Sums s = Unpacked(state);
    if (s.IsEmpty()) return {.error = Outcome::Error::kEmpty};
    Outcome outcome;
    if constexpr (FloatElement<T>) {
      const bool nan = s.total != s.total;
      outcome.value = Scalar::Of(nan ? CanonicalNan(s.total) : s.best);
      if (nan) return outcome;
    } else {
      outcome = IntegerResult<T>(static_cast<Uint128>(s.best));
    }
    outcome.index = s.best_begin;
    outcome.end_index = s.best_end;
    return outcome;
  }

 private:
  // Whether parts with the same elements have the same sum. Sums that are NaN are not compared.
  static bool HasOneSumForEachPart(const Sums& s, std::uint64_t first, std::uint64_t end) {
    struct Part {
      Total sum;
      std::uint64_t begin;
      std::uint64_t end;
    };
    const Part parts[] = {{s.total, first, end},
                          {s.best, s.best_begin, s.best_end},
                          {s.prefix, first, s.prefix_end},
                          {s.suffix, s.suffix_begin, end}};
    for (const Part& a : parts) {
      for (const Part& b : parts) {
        const bool same = a.begin == b.begin && a.end == b.end;
        if (same && (a.sum < b.sum || a.sum > b.sum)) return false;
      }
    }
    return true;
  }
  template <class TotalSum>
  static bool IsSumOver(TotalSum sum, std::uint64_t count) {
    return kernels::Sum<T, kIgnoreNan>{}.IsPossible(sum, 0, count);
  }
  // Combine(s, Lift(x, offset)) in half the steps, for a state that Lift and Append have made. The new suffix
  // is x alone, or x together with the suffix that ended before it. It is the only part that Combine could
  // offer and that can win: of equal sums the old best stays, because it began no later. (It was a suffix
  // once, and suffixes that grow by Append never begin earlier.)
  WARPFOLD_FN LeafState AppendFloat(LeafState s, T x, std::uint32_t offset) const requires FloatElement<T> {
    if constexpr (kIgnoreNan) {
      if (IsNan(x)) return s;
      if (s.IsEmpty()) return Lift(x, offset);
    }
    const auto value = static_cast<double>(ValueOf(x));
    const double across = s.suffix + value;
    const bool longer = across >= value;
    s.suffix = longer ? across : value;
    s.suffix_begin = longer ? s.suffix_begin : offset;
    if (s.suffix > s.best) {
      s.best = s.suffix;
      s.best_begin = s.suffix_begin;
      s.best_end = offset + 1;
    }
    s.total += value;
    if (s.total > s.prefix) {
      s.prefix = s.total;
      s.prefix_end = offset + 1;
    }
    return s;
  }
  static WARPFOLD_FN State Packed(const Sums& s) {
    State state{};
    const Total sums[] = {s.total, s.best, s.prefix, s.suffix};
    const std::uint64_t indices[] = {s.best_begin, s.best_end, s.prefix_end, s.suffix_begin, !s.IsEmpty()};
    WARPFOLD_UNROLL
    for (int i = 0; i < 4; ++i) {
      if constexpr (FloatElement<T>) {
        state.words[i] = BitCast<std::uint64_t>(sums[i]);
      } else {
        state.words[2 * i] = static_cast<std::uint64_t>(sums[i]);
        state.words[2 * i + 1] = static_cast<std::uint64_t>(static_cast<Uint128>(sums[i]) >> 64);
      }
    }
    WARPFOLD_UNROLL
    for (int i = 0; i < 5; ++i) state.words[4 * kSumWords + i] = indices[i];
    return state;
  }
  static WARPFOLD_FN Total SumAt(const State& state, int i) {
    if constexpr (FloatElement<T>) {
      return BitCast<double>(state.words[i]);
    } else {
      return static_cast<Int128>(Uint128{state.words[2 * i + 1]} << 64 | state.words[2 * i]);
    }
  }
  static WARPFOLD_FN Sums Unpacked(const State& state) {
    const std::uint64_t* const indices = state.words + 4 * kSumWords;
    return {SumAt(state, 0), SumAt(state, 1), SumAt(state, 2), SumAt(state, 3),
            indices[0],      indices[1],      indices[2],      indices[3]};
  }
};

}  // namespace warpfold::kernels
