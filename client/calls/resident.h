// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls behind Client::PutBytes, GetArray, ListArrays, DeleteArray and ReduceReference. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/array_reference.h"
#include "client/calls/reducer.h"
#include "client/connections/connection.h"
#include "client/options.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// Each of these functions makes one attempt.

// `job` has the array and how to send it; its spec has only the element type and shape. *may_be_kept says
// whether the network has taken more than the header: the server may have kept the array although the attempt
// failed.
absl::StatusOr<ResidentArray> SendArray(const ReduceJob& job, const PutOptions& put,
                                        const Connection& connection, const Interrupts& interrupts,
                                        bool* may_be_kept);

absl::StatusOr<v1::Reduction> SendReference(const v1::ReductionSpec& spec, std::uint64_t element_bytes,
                                            const ArrayReference& reference, const CallOptions& options,
                                            const Connection& connection, absl::Time deadline,
                                            const Interrupts& interrupts);

absl::StatusOr<std::vector<ResidentArray>> AskForArrays(const std::string& owner,
                                                        const Connection& connection, absl::Time deadline,
                                                        const Interrupts& interrupts);

absl::StatusOr<ResidentArray> AskForArray(const std::string& token, const Connection& connection,
                                          absl::Time deadline, const Interrupts& interrupts);

absl::Status SendDelete(const std::string& token, const Connection& connection, absl::Time deadline,
                        const Interrupts& interrupts);

}  // namespace warpfold
