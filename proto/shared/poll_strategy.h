// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How gRPC is told by which system call its threads wait: by a variable of the environment, which it reads
// when it starts.
#pragma once

namespace warpfold {

inline constexpr char kPollStrategyVariable[] = "GRPC_POLL_STRATEGY";

// Whether the variable names a strategy that gRPC has and connections work with. With any other value gRPC
// ends the process by SIGABRT, without a word: that is nobody's choice.
bool IsPollStrategyChosen();

}  // namespace warpfold
