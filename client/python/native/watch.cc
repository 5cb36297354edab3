// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/watch.h"

#include <algorithm>
#include <utility>

namespace warpfold::python {
namespace nb = nanobind;

void Watch::Attach(CallOptions& options) {
  options.keep_going = [this] { return KeepGoing(); };
  if (!progress_.is_none()) {
    options.on_sent = [this](std::uint64_t bytes) {
      sent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    };
  }
}

void Watch::Protect(const View& view) {
  if (view.may_be_mapped()) ranges_.emplace_back(view.layout().extent());
}

bool Watch::WasCut() const { return std::ranges::any_of(ranges_, &MappedRange::was_cut); }

bool Watch::KeepGoing() {
  if (raised_ != nullptr || WasCut()) return false;
  const nb::gil_scoped_acquire lock;
  try {
    // Runs the handlers of signals if this is the main thread; does nothing in another one.
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    const std::uint64_t sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
    if (sent_bytes != told_bytes_) {
      told_bytes_ = sent_bytes;
      progress_(sent_bytes);
    }
  } catch (const nb::python_error&) {
    raised_ = std::current_exception();
    return false;
  }
  return true;
}

void Watch::Rethrow() {
  if (raised_ != nullptr) std::rethrow_exception(std::exchange(raised_, nullptr));
  if (WasCut()) {
    throw nb::value_error("the file under this memory map has become shorter than the map: open it again");
  }
}

}  // namespace warpfold::python
