// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "client/partial_state.h"
#include "client/python/native/bindings.h"
#include "client/python/native/call.h"
#include "client/python/native/results.h"
#include "client/python/native/strided_reader.h"
#include "client/python/native/view.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

// (first element, element count, bytes)
nb::tuple StateTuple(const PartialState& state) {
  return nb::make_tuple(state.first_element, state.element_count,
                        nb::bytes(state.bytes.data(), state.bytes.size()));
}

std::vector<PartialState> StatesOf(const nb::list& tuples) {
  std::vector<PartialState> states;
  for (const nb::handle item : tuples) {
    nb::tuple state;
    if (!nb::try_cast(item, state) || state.size() != 3) {
      throw nb::type_error("a state is the first element, the number of elements, and bytes");
    }
    const auto bytes = nb::cast<nb::bytes>(state[2]);
    states.push_back({nb::cast<std::uint64_t>(state[0]), nb::cast<std::uint64_t>(state[1]),
                      std::string(bytes.c_str(), bytes.size())});
  }
  return states;
}

// The views lie in memory without gaps.
nb::tuple ReducePart(Client& client, const std::vector<const View*>& views, std::uint64_t first_element,
                     const Task& task, const CallOptions& settings, const nb::object& progress,
                     const std::stop_source* stop) {
  Watch watch(progress);
  std::vector<std::span<const std::byte>> pieces;
  for (const View* view : views) {
    watch.Protect(*view);
    if (!view->layout().is_contiguous()) throw nb::value_error("a part's elements must lie without gaps");
    pieces.emplace_back(view->layout().first, view->layout().byte_count());
  }
  const CallOptions options = OptionsOf(settings, stop, watch);
  return StateTuple(
      Call(watch, [&] { return client.ReducePart(task.spec, task.type, first_element, pieces, options); }));
}

nb::tuple Merge(Client& client, const nb::list& tuples, const Task& task, const CallOptions& settings,
                const std::stop_source* stop) {
  const std::vector<PartialState> states = StatesOf(tuples);
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  return ResultTuple(Call(watch, [&] { return client.Merge(task.spec, task.type, states, options); }));
}

nb::tuple MergeToState(Client& client, const nb::list& tuples, const Task& task, const CallOptions& settings,
                       const std::stop_source* stop) {
  const std::vector<PartialState> states = StatesOf(tuples);
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  return StateTuple(Call(watch, [&] { return client.MergeToState(task.spec, task.type, states, options); }));
}

}  // namespace

void BindParts(nb::class_<Client>& client) {
  client
      .def("reduce_part", &ReducePart, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg().none())
      .def("merge", &Merge, nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("merge_to_state", &MergeToState, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace warpfold::python
