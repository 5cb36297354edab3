// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host is registered with the GPUs in parts (cuda_memory.cc), and a copy may not cross from one
// to the next: CUDA refuses it. All parts end at addresses that are multiples of one number, so that an
// address is enough to know where a copy must end. There is no CUDA in here: it is tested on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {

// How many bytes from `address` on are in the same registered part.
inline std::size_t BytesOfRegistration(const std::byte* address) {
  return kRegistrationBytes - reinterpret_cast<std::uintptr_t>(address) % kRegistrationBytes;
}

}  // namespace warpfold::kernels::cuda
