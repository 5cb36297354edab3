// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts that a server process opens at its start, as its flags say, before anybody can connect to it.
//
// Threads: the one that starts the process.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/admin/admin.h"
#include "server/core/calls/service.h"
#include "server/core/limits.h"
#include "server/files/allow_file.h"
#include "server/files/tls_renewal.h"
#include "server/flags.h"
#include "server/memory/memory_socket.h"
#include "server/process/memory_budget.h"
#include "server/rpc/rpc_server.h"

namespace warpfold::server {

Limits LimitsOf(const Flags& flags, kernels::Backend& backend);

// How much memory of the host the server may come to hold. INVALID_ARGUMENT if that is more than it may have.
absl::StatusOr<MemoryBudget> CheckMemory(const Flags& flags, kernels::Backend& backend);

// Has gRPC receive into memory that the device reads, where it does: twice what slots hold, since messages
// come while others lie in slots. Without it, arrays are copied.
void OpenReceiving(kernels::Backend& backend);

// Takes the memory for kept arrays now, as much of each device: later there might be none.
absl::Status OpenResidentArrays(const Flags& flags, Service& service);

// Null without the flag. `service` must outlive it.
absl::StatusOr<std::unique_ptr<MemorySocket>> OpenMemorySocket(const Flags& flags, Service& service);

// Null without the flag.
absl::StatusOr<std::unique_ptr<Admin>> OpenAdmin(const Flags& flags);

// What the pages read. All arguments must outlive them; `memory_socket` may be null.
AdminSources SourcesOf(const Flags& flags, Service& service, const RpcServer& server,
                       const MemorySocket* memory_socket, const TlsRenewal& tls_renewal,
                       const AllowFile& allow_file, const MemoryBudget& memory);

// What the RPC server is told of the flags, the keys and the budget.
RpcServerOptions OptionsOf(const Flags& flags, const std::optional<TlsKeys>& tls, const MemoryBudget& memory);

}  // namespace warpfold::server
