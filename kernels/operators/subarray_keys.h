// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What max_subarray_sum knows about integers within a leaf. A part of the leaf is one integer, its key: its
// sum, below that the position where it begins, and below that the position where it ends. Both positions
// count back from the last element of the leaf, so that among equal sums the part that begins first has the
// largest key, and among those the one that ends first: one comparison decides. A part that may still grow on
// one side lacks the position of that side, so that one addition makes one part of two adjacent ones.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"

namespace warpfold::kernels {

// The lowest 96 bits of an Int128, with their sign.
struct ThreeWords {
  std::uint32_t words[3];

  WARPFOLD_FN operator Int128() const {  // NOLINT(google-explicit-constructor): so that it reads as a key
    const auto high = static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(words[2])});
    return static_cast<Int128>(Uint128{high} << 64 | (std::uint64_t{words[1]} << 32 | words[0]));
  }
  static WARPFOLD_FN ThreeWords Of(Int128 x) {
    const auto low = static_cast<std::uint64_t>(x);
    return {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
             static_cast<std::uint32_t>(static_cast<Uint128>(x) >> 64)}};
  }
};

template <IntegerElement T>
using SubarrayKey = std::conditional_t<sizeof(T) == 8, Int128, std::int64_t>;

// The type in which a key is stored. On a GPU a word is a register; CPUs stall when they load in one piece
// what they have just stored in three. (Leaf states never move between the two.)
#if defined(__CUDACC__)
template <IntegerElement T>
using StoredSubarrayKey = std::conditional_t<sizeof(T) == 8, ThreeWords, std::int64_t>;
#else
template <IntegerElement T>
using StoredSubarrayKey = SubarrayKey<T>;
#endif

template <IntegerElement T, class Stored = StoredSubarrayKey<T>>
struct SubarrayKeys {
  using Element = T;
  static constexpr bool kWide = sizeof(T) == 8;
  using Key = SubarrayKey<T>;

  static constexpr auto kLastIndex = static_cast<std::uint32_t>(LeafElements(sizeof(T)) - 1);
  static constexpr int kIndexBits = Log2(kLastIndex + 1);
  static constexpr int kSumShift = 2 * kIndexBits;
  static constexpr int kKeyBits = kWide ? 96 : 64;
  // The key for no part: less than the key of any part, even with any sum added, and so far from the smallest
  // key that neither adding two of them nor the difference of any two keys overflows.
  static constexpr Key kNone = -(Key{1} << (kKeyBits - 2));
  static_assert(kSumShift + 8 * static_cast<int>(sizeof(T)) + kIndexBits <= kKeyBits - 2);

  Stored total;   // with neither position
  Stored best;    // both
  Stored prefix;  // the best part that starts at the first element: its end
  Stored suffix;  // the best part that ends at the last one: its beginning

  static WARPFOLD_FN SubarrayKeys Empty() { return {Store(0), Store(kNone), Store(kNone), Store(kNone)}; }
  WARPFOLD_FN bool IsEmpty() const { return Key{best} == kNone; }

  // `offset` is the position of x within the leaf.
  static WARPFOLD_FN SubarrayKeys Of(T x, std::uint32_t offset) {
    const Key total = OfSum(x);
    const Key suffix = total | Key{BeginAt(offset)};
    return {Store(total), Store(suffix | EndAt(offset)), Store(total | EndAt(offset)), Store(suffix)};
  }

  static WARPFOLD_FN SubarrayKeys Join(const SubarrayKeys& a, const SubarrayKeys& b) {
    const Key total = a.total;
    const Key suffix = a.suffix;
    return {Store(total + b.total), Store(Larger(Larger(a.best, b.best), suffix + b.prefix)),
            Store(Larger(a.prefix, total + b.prefix)), Store(Larger(b.suffix, suffix + b.total))};
  }

  // The same as Join(*this, Of(x, offset)) for keys that are not Empty(). The new part is compared before it
  // gets its end: with zero bits there, it loses among equal sums and beginnings.
  WARPFOLD_FN SubarrayKeys Append(T x, std::uint32_t offset) const {
    const Key sum = OfSum(x);
    // An empty sum is better than a negative one; unsigned sums are never negative.
    const Key before = kIsSigned<T> && IsLessThanNothing(suffix) ? Key{BeginAt(offset)} : Key{suffix};
    const Key ends_here = before + sum;
    const Key all = total + sum;
    return {Store(all), Store(IsLess(best, ends_here) ? ends_here | EndAt(offset) : Key{best}),
            Store(IsLess(prefix, all) ? all | EndAt(offset) : Key{prefix}), Store(ends_here)};
  }

  // Returns the keys of the same elements, `distance` places further on. That does not change any sum,
  // because no position, counted from the last one, is less than the distance.
  WARPFOLD_FN SubarrayKeys Moved(std::uint32_t distance) const {
    return {total, Store(Key{best} - Key{distance << kIndexBits | distance}),
            Store(Key{prefix} - Key{distance}), Store(Key{suffix} - Key{distance << kIndexBits})};
  }

  static WARPFOLD_FN Key SumOf(Key key) { return key >> kSumShift; }
  static WARPFOLD_FN std::uint32_t BeginOf(Key key) { return IndexAt(key, kIndexBits); }
  static WARPFOLD_FN std::uint32_t EndOf(Key key) { return IndexAt(key, 0) + 1; }

 private:
  static WARPFOLD_FN Stored Store(Key key) {
    if constexpr (std::is_same_v<Stored, Key>) {
      return key;
    } else {
      return Stored::Of(key);
    }
  }
  // Tests the second highest bit, which equals the sign bit: nvcc would compare the whole key with zero, but
  // tests a bit in one step.
  static WARPFOLD_FN bool IsLessThanNothing(Key key) {
    return (static_cast<std::uint32_t>(key >> (kKeyBits - 32)) & 0x40000000u) != 0;
  }
  static WARPFOLD_FN bool IsLess(Key a, Key b) {
    if constexpr (std::is_same_v<Stored, Key>) {
      return a < b;
    } else {
      // nvcc subtracts in fewer steps than it compares.
      return static_cast<std::int32_t>(static_cast<std::uint32_t>((a - b) >> (kKeyBits - 32))) < 0;
    }
  }
  static WARPFOLD_FN Key Larger(Key a, Key b) { return IsLess(a, b) ? b : a; }
  // nvcc would extend the sign first, and then shift all four words.
  static WARPFOLD_FN Key OfSum(T x) {
    if constexpr (kWide) {
      const auto high = static_cast<std::uint64_t>(x >> (64 - kSumShift));
      return static_cast<Key>(Uint128{high} << 64 | static_cast<std::uint64_t>(x) << kSumShift);
    } else {
      return Key{ValueOf(x)} << kSumShift;
    }
  }
  static WARPFOLD_FN std::uint32_t BeginAt(std::uint32_t offset) { return FromLast(offset) << kIndexBits; }
  static WARPFOLD_FN Key EndAt(std::uint32_t last) { return Key{FromLast(last)}; }
  // Counts an offset from the last one. It does so in two parts; if a run is unrolled, one of them is a
  // constant to compilers.
  static WARPFOLD_FN std::uint32_t FromLast(std::uint32_t offset) {
    constexpr std::uint32_t kInRun = (kLastIndex + 1) / kLanes - 1;
    return ((offset & ~kInRun) ^ (kLastIndex & ~kInRun)) + ((offset & kInRun) ^ kInRun);
  }
  static WARPFOLD_FN std::uint32_t IndexAt(Key key, int shift) {
    return kLastIndex ^ (static_cast<std::uint32_t>(key >> shift) & kLastIndex);
  }
};

}  // namespace warpfold::kernels
