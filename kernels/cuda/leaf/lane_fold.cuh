// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// LaneFold<Op>: how a lane folds its elements of a full leaf. The primary template is the method that works
// for every operator: element by element, in one sweep (lane_sweep.cuh) or two (two_sweeps.cuh). An operator
// for which GPUs have something faster has a specialisation in a file of its name in this folder, for example
// sum.cuh for sum. The generated source of the operator's row includes that file, because it has this name
// (kernels/row.in).
//
// Each such file is declared at the end of this header. So code that has not included the file does not
// compile, instead of silently using the slow method.
#pragma once

#include "kernels/cuda/leaf/lane_sweep.cuh"
#include "kernels/cuda/leaf/two_sweeps.cuh"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <ScalarOperator Op>
struct PlainLaneFold : LaneSweep<Op> {};
template <ScalarOperator Op>
requires TwoSweeps<Op>
struct PlainLaneFold<Op> : TwoLaneSweeps<Op> {
};

// A specialisation has a Fold with the arguments of LaneSweep's Fold, which returns the same bits as
// PlainLaneFold. Those that sweep twice take the vectors by a non-const reference, because they write to
// them.
//
// The files of operators all have the same form: they first say that the operator over any type is a
// PlainLaneFold, and then specialise it for the types that have a faster method. (describe has its own method
// for all types.)
template <ScalarOperator Op>
struct LaneFold : PlainLaneFold<Op> {};

}  // namespace warpfold::kernels::cuda

// The executor on the host (kernels/simt) has none of the instructions that these files use. There every
// operator is folded element by element.
#if !defined(WARPFOLD_SIMT)
namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Argmax;
template <class T, bool kIgnoreNan>
struct Argmin;
template <class T, bool kIgnoreNan>
struct BitAnd;
template <class T, bool kIgnoreNan>
struct BitOr;
template <class T, bool kIgnoreNan>
struct BitXor;
template <class T, bool kIgnoreNan>
struct Describe;
template <class T, bool kIgnoreNan>
struct Max;
template <class T, bool kIgnoreNan>
struct Min;
template <class T, bool kIgnoreNan>
struct Minmax;
template <class T, bool kIgnoreNan>
struct Product;
template <class T, bool kIgnoreNan>
struct Sum;
template <class T, bool kIgnoreNan>
struct Variance;

namespace cuda {

template <class T, bool kIgnoreNan>
struct LaneFold<Argmax<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Argmin<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<BitAnd<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<BitOr<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<BitXor<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Describe<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Max<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Min<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Minmax<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Product<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Sum<T, kIgnoreNan>>;
template <class T, bool kIgnoreNan>
struct LaneFold<Variance<T, kIgnoreNan>>;

}  // namespace cuda
}  // namespace warpfold::kernels
#endif
