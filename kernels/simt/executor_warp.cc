// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of the executor in which the lanes of a warp meet: __syncwarp, shuffles, votes and reductions. The
// last lane of a mask to arrive lets all of them go on, with the values that the call gives them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/simt/executor.h"
#include "kernels/simt/vocabulary.h"
#include "kernels/simt/where.h"

namespace warpfold::kernels::simt {

std::uint64_t Executor::MeetWarp(WarpCall call, unsigned mask, std::uint64_t value, int source,
                                 const Where& where) {
  if (call == WarpCall::kSync && IsRemoved(where, Part::kBarrier)) return 0;
  Thread& me = *thread_;
  const unsigned lane = me.number % kLanesOfWarp;
  me.doing = Doing::kWaitsForWarp;
  me.where = where;
  me.call = call;
  me.mask = mask;
  me.source = source;
  me.value = value;
  block_->warps[me.number / kLanesOfWarp].waiting |= 1u << lane;
  if ((mask >> lane & 1) == 0) {
    Fail(*block_, me, absl::StrCat("is not in its own mask at ", Place(where)));
  } else {
    TryToMeet(*block_, me);
  }
  Suspend();
  return me.value;
}

void Executor::TryToMeet(Block& block, const Thread& last) {
  const unsigned number = last.number / kLanesOfWarp;
  const unsigned lanes = last.mask & block.warps[number].lanes;
  if ((lanes & ~block.warps[number].waiting) != 0) return;
  for (unsigned lane = 0; lane < kLanesOfWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const Thread& other = block.threads[number * kLanesOfWarp + lane];
    if (other.mask != last.mask || other.call != last.call || !AreSame(other.where, last.where)) {
      return Fail(block, last,
                  absl::StrCat(Waiting(last), ", but thread ", other.number, " ", Waiting(other)));
    }
    if (last.call == WarpCall::kShuffle && (other.source < 0 || (lanes >> other.source & 1) == 0)) {
      return Fail(
          block, other,
          absl::StrCat("reads lane ", other.source, ", which takes no part, at ", Place(other.where)));
    }
  }
  Exchange(block, last, lanes);
}

void Executor::Exchange(Block& block, const Thread& last, unsigned lanes) {
  Thread* const threads = &block.threads[last.number / kLanesOfWarp * kLanesOfWarp];
  const WarpCall call = last.call;
  std::uint64_t values[kLanesOfWarp] = {};
  std::uint64_t all = 0;
  for (unsigned lane = 0; lane < kLanesOfWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const std::uint64_t value = values[lane] = threads[lane].value;
    switch (call) {
      case WarpCall::kSync:
      case WarpCall::kShuffle:
        break;
      case WarpCall::kBallot:
        all |= value << lane;
        break;
      case WarpCall::kAdd:
        all += value;
        break;
      case WarpCall::kMax:
        all = std::max(all, value);
        break;
    }
  }
  block.warps[last.number / kLanesOfWarp].waiting &= ~lanes;
  for (unsigned lane = 0; lane < kLanesOfWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    threads[lane].value = call == WarpCall::kShuffle ? values[threads[lane].source] : all;
    MakeRunnable(block, threads[lane]);
  }
}

}  // namespace warpfold::kernels::simt
