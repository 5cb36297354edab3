// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How to call the client library for Python: without Python's lock, and watched.
#pragma once

#include <nanobind/nanobind.h>

#include <concepts>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "client/array.h"
#include "client/options.h"
#include "client/python/native/python_lock.h"
#include "client/python/native/raise.h"
#include "client/python/native/watch.h"

namespace warpfold::python {

// What to compute from an array.
struct Task {
  Spec spec;
  ElementType type;
};

// A call's own settings, with its Watch.
inline CallOptions OptionsOf(const CallOptions& settings, const std::stop_source* stop, Watch& watch) {
  CallOptions options = settings;
  if (stop != nullptr) options.stop = stop->get_token();
  watch.Attach(options);
  return options;
}

// Runs the function without Python's lock and returns its result. Raises its error, or what the Watch has
// caught.
template <typename Function>
auto Call(Watch& watch, const Function& function) {
  auto answer = [&] {
    const Unlocked unlocked;
    watch.Begin(unlocked);
    const absl::Cleanup end = [&watch] { watch.End(); };
    return function();
  }();
  watch.Rethrow();
  if constexpr (std::same_as<decltype(answer), absl::Status>) {
    if (!answer.ok()) Raise(answer);
  } else {
    if (!answer.ok()) Raise(answer.status());
    return *std::move(answer);
  }
}

}  // namespace warpfold::python
