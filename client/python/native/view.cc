// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/view.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/python/native/python_lock.h"
#include "client/python/native/watch.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

std::string TypeName(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  const std::string bits = std::to_string(type.bits);
  if (type.lanes != 1) return "vector of " + bits + " bits";
  switch (static_cast<Code>(type.code)) {
    case Code::Int:
      return "int" + bits;
    case Code::UInt:
      return "uint" + bits;
    case Code::Float:
      return "float" + bits;
    case Code::Bfloat:
      return "bfloat" + bits;
    case Code::Bool:
      return type.bits == 8 ? "bool" : "bool of " + bits + " bits";
    case Code::Complex:
      return "complex" + bits;
    default:
      return "type " + std::to_string(type.code) + " of " + bits + " bits";
  }
}

// The elements in row-major order. ValueError if a mapped file was truncated meanwhile.
nb::bytes Copy(const View& view) {
  if (view.device() != nb::device::cpu::value || view.layout().element_bytes > 8) {
    throw nb::type_error("elements of at most 8 bytes in the host's memory are copied");
  }
  const std::uint64_t byte_count = view.layout().byte_count();
  auto copy = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(byte_count)));
  if (!copy.is_valid()) nb::raise_python_error();
  Watch watch{nb::none()};
  watch.Protect(view);
  if (byte_count != 0) {
    auto* const to = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(copy.ptr()));
    const Unlocked unlocked;
    StridedReader(view.layout()).Read(0, {to, byte_count});
  }
  watch.Rethrow();
  return copy;
}

}  // namespace

View::View(nb::ndarray<nb::ro> array) : array_(std::move(array)), type_(TypeName(array_.dtype())) {
  layout_.first = static_cast<const std::byte*>(array_.data());
  layout_.element_bytes = array_.itemsize();
  for (std::size_t i = 0; i < array_.ndim(); ++i) {
    layout_.shape.push_back(static_cast<std::int64_t>(array_.shape(i)));
    layout_.strides.push_back(array_.stride(i) * static_cast<std::int64_t>(array_.itemsize()));
  }
  if (!layout_.is_countable()) throw nb::value_error("an array of 2**63 bytes or more cannot be sent");
}

std::optional<std::uintptr_t> View::last_byte() const {
  const std::span<const std::byte> extent = layout_.extent();
  if (extent.empty()) return std::nullopt;
  return reinterpret_cast<std::uintptr_t>(extent.data()) + extent.size() - 1;
}

nb::tuple View::shape() const {
  nb::list lengths;
  for (const std::int64_t length : layout_.shape) lengths.append(length);
  return nb::tuple(lengths);
}

void BindView(nb::module_& module) {
  nb::class_<View>(module, "View")
      .def(nb::init<nb::ndarray<nb::ro>>())
      .def_prop_ro("type", &View::type)
      .def_prop_ro("device", &View::device)
      .def_prop_ro("shape", &View::shape)
      .def_prop_ro("address",
                   [](const View& view) { return reinterpret_cast<std::uintptr_t>(view.layout().first); })
      .def_prop_ro("last_byte", &View::last_byte)
      .def_prop_ro("nbytes", [](const View& view) { return view.layout().byte_count(); })
      .def("copy", &Copy)
      .def_prop_rw("may_be_mapped", &View::may_be_mapped, &View::set_may_be_mapped)
      .def_prop_ro("contiguous", [](const View& view) { return view.layout().is_contiguous(); })
      .def("contiguous_in", [](const View& view, const std::vector<std::size_t>& order) {
        return view.layout().Permuted(order).is_contiguous();
      });
}

}  // namespace warpfold::python
