// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The log on standard error.
#pragma once

#include "server/flags.h"

namespace warpfold::server {

// Lines of text, or JSON objects with time (UTC), level and message. Also takes in what gRPC logs; what
// protobuf has to say about malformed messages is dropped, since any client could fill the log with it.
void SetUpLogging(LogFormat format);

}  // namespace warpfold::server
