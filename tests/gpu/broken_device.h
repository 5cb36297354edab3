// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Breaks GPU 0 for this process, as a defect in a kernel or in the GPU would: every later call into CUDA
// fails, or none of the later kernels ever ends.
#pragma once

namespace warpfold {

// Launches a kernel that writes to address 0. Returns without waiting; from then on every call into CUDA
// fails with cudaErrorIllegalAddress, until the process ends.
void WriteToAddressZero();

// Fills every multiprocessor with blocks that never end. Returns without waiting.
void OccupyForEver();

}  // namespace warpfold
