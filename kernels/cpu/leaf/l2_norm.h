// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The Euclidean norm folds leaves as the sum of squares does.
#pragma once

#include "kernels/cpu/leaf/sum_of_squares.h"
