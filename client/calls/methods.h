// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of methods that several files call. Internal.
#pragma once

namespace warpfold {

inline constexpr char kReduceMethod[] = "/warpfold.v1.ReductionService/Reduce";
inline constexpr char kReduceArrayMethod[] = "/warpfold.v1.ReductionService/ReduceArray";

}  // namespace warpfold
