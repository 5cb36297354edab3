// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// all has the states of count_nonzero; so its segments are folded as those of count_nonzero.
#pragma once

#include "kernels/cpu/leaf/count_nonzero.h"
