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
  if (unlocked_ == nullptr || raised_ != nullptr || WasCut()) return false;
  const LockedAgain lock(*unlocked_);
  if (AskPython()) return true;
  raised_ = std::make_exception_ptr(nb::python_error());
  return false;
}

bool Watch::AskPython() {
  // Runs the signal handlers if this is the main thread; does nothing in any other thread.
  if (PyErr_CheckSignals() != 0) return false;
  const std::uint64_t sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
  if (sent_bytes == told_bytes_) return true;
  told_bytes_ = sent_bytes;
  const nb::int_ number(sent_bytes);
  return nb::steal(UnlessPythonEnds([&] { return PyObject_CallOneArg(progress_.ptr(), number.ptr()); }))
      .is_valid();
}

void Watch::Rethrow() {
  if (raised_ != nullptr) std::rethrow_exception(std::exchange(raised_, nullptr));
  if (WasCut()) {
    throw nb::value_error("the file under this memory map has become shorter than the map: open it again");
  }
}

}  // namespace warpfold::python
