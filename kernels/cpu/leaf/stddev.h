// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The standard deviation folds leaves as the variance does.
#pragma once

#include "kernels/cpu/leaf/variance.h"
