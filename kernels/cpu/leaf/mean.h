// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// mean of integers, and of floats if NaN counts, has the states of sum; so its segments are folded as those
// of sum.
#pragma once

#include "kernels/cpu/leaf/sum.h"
