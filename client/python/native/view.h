// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A Python array, as it lies in memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <string>

#include "client/python/native/strided_reader.h"

namespace warpfold::python {

// Keeps a reference to the array. Threads: those that have Python's lock; `layout` may be read without it.
class View {
 public:
  // Anything that nanobind accepts: DLPack, on any device, and the buffer protocol. ValueError for an array
  // of 2^63 bytes or more, of which only a few may be in memory.
  explicit View(nanobind::ndarray<nanobind::ro> array);

  const Layout& layout() const { return layout_; }
  // NumPy's name of the type, or one that no element type has: "complex64", "float8_4".
  const std::string& type() const { return type_; }
  // DLPack's number: 1 is the host's memory.
  int device() const { return array_.device_type(); }
  nanobind::tuple shape() const;
  // The highest address of one of the elements' bytes, if there is any.
  std::optional<std::uintptr_t> last_byte() const;

  // Whether the elements may lie in a file's mapping; the caller clears this for elements that certainly do
  // not.
  bool may_be_mapped() const { return may_be_mapped_; }
  void set_may_be_mapped(bool may_be) { may_be_mapped_ = may_be; }

 private:
  nanobind::ndarray<nanobind::ro> array_;
  Layout layout_;
  std::string type_;
  bool may_be_mapped_ = true;
};

void BindView(nanobind::module_& module);

}  // namespace warpfold::python
