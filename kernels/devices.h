// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the backend that a --device flag names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"

namespace warpfold::kernels {

// The GPUs that "cuda:N", or a list such as "cuda:0,cuda:2", names; none for "cuda:all". INVALID_ARGUMENT if
// `device` is none of these, or names a GPU twice.
absl::StatusOr<std::vector<int>> ParseGpus(absl::string_view device);

// `device`: "cpu", what ParseGpus takes, "simt" or "simt:SEED" (simt/simt_backend.h), or "auto": the first
// GPU, or the CPU if there is no GPU, and never simt, which is slow. A GPU that is there but cannot be used
// is an error with "auto" too: nobody would notice that it is idle. INVALID_ARGUMENT if it is none of these;
// NOT_FOUND if there is no such GPU (also where this build has no CUDA); FAILED_PRECONDITION if its driver is
// too old; UNAVAILABLE (DEVICE_LOST) if it cannot be used; INTERNAL (LAUNCH_REFUSED) if there are no kernels
// for it, or CUDA refuses something else; RESOURCE_EXHAUSTED if it or the host lacks the memory, or the host
// lacks the threads. With "auto", `*note` says why the CPU was taken; otherwise it is left empty.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view device, const BackendOptions& options,
                                                     std::string* note);

// How much of the host's memory the slots of one device that MakeBackend makes will take (Slot::host_bytes);
// for "auto", as much as for the CPU.
std::uint64_t HostBytesOfSlots(absl::string_view device, const BackendOptions& options);

// Reads all bytes of `memory` on the GPU that has it, which must be one of those that `device` names
// (ParseGpus). Statuses are those of Backend::Open, and RESOURCE_EXHAUSTED if that GPU has no room for a MiB.
// UNAVAILABLE means that this process can no longer use the device, as may happen with a handle that was
// tampered with. So only an expendable process should call this.
absl::Status ProbeMemory(absl::string_view device, const ProcessMemory& memory);

}  // namespace warpfold::kernels
