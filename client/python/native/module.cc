// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "client/calls/translate.h"
#include "client/connections/target_names.h"
#include "client/python/native/bindings.h"
#include "client/python/native/gpu_driver.h"
#include "client/python/native/view.h"
#include "proto/error_texts.h"
#include "proto/leaf.h"

namespace {

bool is_loaded = false;

// Why the module cannot be loaded into the running interpreter, or null.
const char* Hindrance() {
  // Threads of gRPC and of calls ask for Python's lock through the main interpreter, and would wait for ever
  // in another one.
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    return "warpfold works in Python's main interpreter alone, not in a subinterpreter: use threads or "
           "processes";
  }
  if (is_loaded) {
    return "warpfold is imported once in a process: its modules have been taken out of sys.modules since";
  }
  return nullptr;
}

using Exec = int (*)(PyObject*);
Exec exec_by_nanobind = nullptr;

int ExecUnlessHindered(PyObject* module) {
  const char* const hindrance = Hindrance();
  if (hindrance == nullptr) return exec_by_nanobind(module);
  PyErr_SetString(PyExc_ImportError, hindrance);
  return -1;
}

}  // namespace

NB_MODULE(_native_module, module) {
  // Whether objects that live until the interpreter's end are freed is up to Python.
  nanobind::set_leak_warnings(false);
  warpfold::python::BindView(module);
  warpfold::python::BindClient(module);
  warpfold::python::BindMemory(module);
  warpfold::python::BindGpuDriver(module);
  module.def("operator_names", &warpfold::OperatorNames);
  module.def("text_of_no_value", &warpfold::TextOfNoValue);
  module.def("fault_of_target",
             [](const std::string& name) { return std::string(warpfold::FaultOfTarget(name)); });
  module.attr("LEAF_BYTES") = warpfold::kLeafBytes;
  is_loaded = true;
}

// Python asks this for the module's definition, and then runs its slot `exec` (PEP 489), in the interpreter
// that imports. nanobind has one state for the process, which its `exec` sets: an attempt that is given up
// later would leave this state to a dying interpreter. So the check comes first. It is not made here: some
// versions of Python (3.13) call this in the main interpreter, whichever one imports.
extern "C" NB_EXPORT PyObject* PyInit__native() {
  PyObject* const definition = PyInit__native_module();
  if (definition == nullptr || exec_by_nanobind != nullptr) return definition;
  for (auto* slot = reinterpret_cast<PyModuleDef*>(definition)->m_slots; slot->slot != 0; ++slot) {
    if (slot->slot != Py_mod_exec) continue;
    exec_by_nanobind = reinterpret_cast<Exec>(slot->value);
    slot->value = reinterpret_cast<void*>(&ExecUnlessHindered);
  }
  return definition;
}
