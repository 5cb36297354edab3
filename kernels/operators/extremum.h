// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What min and max, argmin and argmax share. kMax chooses the larger element.
#pragma once

#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

// The bits of an element that loses against every other: the worst integer; an infinity, or a NaN if those
// are ignored.
template <AnyElement T, bool kIgnoreNan, bool kMax>
constexpr Bits<T> BeatenBits() {
  if constexpr (FloatElement<T>) {
    return static_cast<Bits<T>>((kInfinityBits<T> | (kIgnoreNan ? kInfinityBits<T> >> 1 : 0)) +
                                (kMax ? kSignBit<T> : 0));
  } else {
    return static_cast<Bits<T>>(kMax ? kSmallestKey<T> : kLargestKey<T>);
  }
}

// IEEE 754-2019 minimum and maximum: NaN propagates, -0.0 is below +0.0. Ignoring NaN: minimumNumber and
// maximumNumber; only NaN elements give NaN, as with numpy.nanmin.
template <AnyElement T, bool kIgnoreNan, bool kMax>
struct Extremum {
  using Element = T;
  using LeafState = Key<T>;
  using State = Key<T>;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kAnyOrder = true;
  // The key that every other key beats, so that it is neutral. For floats it is the key of a NaN, beyond
  // infinity.
  static constexpr Key<T> kWorst = kMax ? kSmallestKey<T> : kLargestKey<T>;
  static constexpr Key<T> kBest = kMax ? kLargestKey<T> : kSmallestKey<T>;
  static constexpr Bits<T> kNeutral = BeatenBits<T, kIgnoreNan, kMax>();

  WARPFOLD_FN State Lift(T x, std::uint32_t) const { return KeyOf<T>(x, kIgnoreNan ? kWorst : kBest); }
  WARPFOLD_FN State Combine(State a, State b) const { return (kMax ? b > a : b < a) ? b : a; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return kWorst; }
  WARPFOLD_FN State Identity() const { return kWorst; }

  bool IsPossible(State s, std::uint64_t, std::uint64_t) const {
    return IsKey<T>(s, kIgnoreNan ? kWorst : kBest);
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    return {.value = Scalar::Of(ElementOf<T>(s))};
  }
};

// Compared by value (zeros are equal); the first index wins; the first NaN wins unless ignored.
template <AnyElement T, bool kIgnoreNan, bool kMax>
struct ArgExtremum {
  struct LeafState {
    Key<T> key;
    std::uint32_t offset;
  };
  using WideKey = std::conditional_t<std::is_signed_v<Key<T>>, std::int64_t, std::uint64_t>;
  struct State {
    std::uint64_t index;
    WideKey key;
  };
  using Element = T;
  using Keys = Extremum<T, kIgnoreNan, kMax>;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kAnyOrder = true;
  static constexpr bool kScalarsOnly = true;  // a matrix of indices has no known use
  static constexpr std::uint32_t kNoOffset = ~std::uint32_t{0};

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t offset) const {
    if constexpr (kIgnoreNan && FloatElement<T>) {
      if (IsNan(x)) return LeafIdentity();
    }
    return {Keys{}.Lift(x, 0), offset};
  }
  WARPFOLD_FN LeafState Combine(LeafState a, LeafState b) const {
    return Wins(b.key, b.offset, a.key, a.offset) ? b : a;
  }
  WARPFOLD_FN State Combine(State a, State b) const { return Wins(b.key, b.index, a.key, a.index) ? b : a; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t first) const {
    return {leaf.offset == kNoOffset ? Outcome::kNoIndex : first + leaf.offset, leaf.key};
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return {Keys::kWorst, kNoOffset}; }
  // Elements are compared by their ranks, and the best rank wins.
  WARPFOLD_FN Key<T> RankOf(T x) const { return Rank(Keys{}.Lift(x, 0)); }
  WARPFOLD_FN State Identity() const { return {Outcome::kNoIndex, Keys::kWorst}; }

  bool IsPossible(State s, std::uint64_t first, std::uint64_t count) const {
    const auto key = static_cast<Key<T>>(s.key);
    if (s.key != static_cast<decltype(s.key)>(key)) return false;
    // If NaN counts, every range has a winner.
    if (s.index == Outcome::kNoIndex) return kIgnoreNan && key == Keys::kWorst;
    const bool is_ignored = kIgnoreNan && key == Keys::kBest;
    // If the worst integer wins, all are equal to it, and the first of them wins.
    if (!FloatElement<T> && key == Keys::kWorst && s.index != first) return false;
    return s.index >= first && s.index - first < count && IsKey<T>(key, Keys::kBest) && !is_ignored;
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t count) const {
    if (count == 0 || s.index == Outcome::kNoIndex) return {.error = Outcome::Error::kEmpty};
    return {.value = Scalar::Of(ElementOf<T>(static_cast<Key<T>>(s.key))), .index = s.index};
  }

 private:
  template <class K, class Index>
  static WARPFOLD_FN bool Wins(K a, Index a_index, K b, Index b_index) {
    const K a_rank = Rank(a);
    const K b_rank = Rank(b);
    return (kMax ? a_rank > b_rank : a_rank < b_rank) || (a_rank == b_rank && a_index < b_index);
  }
  // -0.0 has the key below that of +0.0, which is 0.
  template <class K>
  static WARPFOLD_FN K Rank(K key) {
    if constexpr (FloatElement<T>) return static_cast<K>(key + (key == -1));
    return key;
  }
};

}  // namespace warpfold::kernels
