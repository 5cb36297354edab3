// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The standard reflection service: tells tools which services exist, and their messages.
//
// Threads: any.
#pragma once

#include "grpc/reflection/v1/reflection.pb.h"

namespace warpfold::server {

// Serves the API's files, those of the standard services and those that they import; for other files,
// NOT_FOUND. The messages of v1alpha have the same bytes.
grpc::reflection::v1::ServerReflectionResponse Reflect(
    const grpc::reflection::v1::ServerReflectionRequest& request);

}  // namespace warpfold::server
