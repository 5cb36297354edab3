// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// While an object of this class lives, protobuf does not write a line to standard error for each message that
// it cannot parse: tests with random bytes make it parse 100,000 of those.
#pragma once

// A protobuf with its own logging has this header; later ones log through abseil.
#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#else
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#endif

namespace warpfold::server {

class QuietProtobuf {
#if __has_include(<google/protobuf/stubs/logging.h>)
  google::protobuf::LogSilencer silencer_;
#else
  absl::ScopedStderrThreshold silencer_{absl::LogSeverityAtLeast::kInfinity};
#endif
};

}  // namespace warpfold::server
