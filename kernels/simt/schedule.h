// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which thread runs next: what a seed decides in one launch. That is an order of blocks, how many of them are
// resident, which of their threads is first, and how long a block runs before another one does.
//
// One seed in three picks any thread each time; one gives warps and lanes ranks that they keep, so that one
// runs far ahead of another; one changes ranks now and then (Burckhardt et al., "A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs", 2010).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/simt/chance.h"

namespace warpfold::kernels::simt {

class Schedule {
 public:
  // Seed 0: everything in ascending order.
  Schedule(std::uint64_t seed, std::uint64_t launch)
      : chance_(seed * 0x2545f4914f6cdd1du + launch), is_random_(seed != 0) {
    if (!is_random_) return;
    policy_ = static_cast<Policy>(1 + chance_.Below(3));
    shows_early_ = chance_.OneIn(2);
  }

  bool is_random() const { return is_random_; }
  Chance& chance() { return chance_; }
  // Whether writes may become visible before they must.
  bool shows_early() { return shows_early_ && chance_.OneIn(4); }

  std::vector<unsigned> BlockOrder(unsigned blocks) {
    std::vector<unsigned> order(blocks);
    std::iota(order.begin(), order.end(), 0u);
    if (!is_random_) return order;
    for (unsigned i = blocks; i > 1; --i) std::swap(order[i - 1], order[chance_.Below(i)]);
    return order;
  }

  // Chooses how many blocks are resident, at most `most`.
  unsigned BlocksAtOnce(unsigned most) { return is_random_ ? 1 + chance_.Below(most) : 1; }

  // How many times a block's threads are resumed until it is another block's turn.
  unsigned Turns() { return is_random_ ? 1 + chance_.Below(1u << chance_.Below(10)) : ~0u; }

  // Ranks of a block's threads: of those that can run, the one with the highest rank does.
  std::vector<std::uint64_t> FirstRanks(unsigned threads) {
    std::vector<std::uint64_t> ranks(threads);
    std::uint64_t warp = 0;
    for (unsigned i = 0; i < threads; ++i) {
      if (i % 32 == 0) warp = is_random_ ? chance_.Next() >> 32 << 32 : 0;
      ranks[i] = is_random_ ? warp | chance_.Next() >> 32 : threads - i;
    }
    return ranks;
  }
  // The new rank of a thread that can run again.
  std::uint64_t NextRank(std::uint64_t rank) {
    if (policy_ == Policy::kAny || (policy_ == Policy::kChanging && chance_.OneIn(16))) return chance_.Next();
    return rank;
  }

 private:
  enum class Policy { kAscending, kAny, kKept, kChanging };

  Chance chance_;
  const bool is_random_;
  Policy policy_ = Policy::kAscending;
  bool shows_early_ = false;
};

}  // namespace warpfold::kernels::simt
