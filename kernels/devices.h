// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the backend that a --device flag names.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"

namespace warpfold::kernels {

// `device`: "cpu", "cuda:N", or "auto": the first GPU, or the CPU if there is no GPU. A GPU that is there
// but cannot be used is an error with "auto" too: nobody would notice that it is idle.
// INVALID_ARGUMENT if it is none of these; NOT_FOUND if there is no such GPU (also where this build has no
// CUDA); UNAVAILABLE if it cannot be used; RESOURCE_EXHAUSTED if the host has not the memory or the threads.
// With "auto", `*note` says why the CPU was taken, else it is left empty.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view device, const BackendOptions& options,
                                                     std::string* note);

}  // namespace warpfold::kernels
