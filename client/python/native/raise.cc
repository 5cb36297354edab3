// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/raise.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "client/error.h"
#include "client/python/native/python_lock.h"

namespace warpfold::python {
namespace nb = nanobind;

nb::tuple ErrorParts(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status).value_or(ErrorInfo{});
  // A server's text need not be UTF-8.
  const nb::object message = nb::steal(PyUnicode_DecodeUTF8(
      status.message().data(), static_cast<Py_ssize_t>(status.message().size()), "replace"));
  return nb::make_tuple(absl::StatusCodeToString(status.code()), message, info.reason, info.metadata);
}

void Raise(const absl::Status& status) {
  const nb::object from_status = nb::module_::import_("warpfold.errors").attr("from_status");
  const nb::tuple parts = ErrorParts(status);
  const nb::object error =
      nb::steal(UnlessPythonEnds([&] { return PyObject_CallObject(from_status.ptr(), parts.ptr()); }));
  if (!error.is_valid()) throw nb::python_error();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace warpfold::python
