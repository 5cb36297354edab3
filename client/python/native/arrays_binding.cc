// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/python/native/bindings.h"
#include "client/python/native/call.h"
#include "client/python/native/results.h"
#include "client/python/native/strided_reader.h"
#include "client/python/native/view.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

using Matrix = std::optional<std::pair<std::uint32_t, std::uint32_t>>;

std::string TokenOf(const nb::bytes& token) { return {token.c_str(), token.size()}; }

nb::tuple ArrayTuple(const ResidentArray& array) {
  Matrix matrix;
  if (array.matrix_shape.has_value()) matrix = {array.matrix_shape->rows, array.matrix_shape->columns};
  return nb::make_tuple(nb::bytes(array.token.data(), array.token.size()), array.id, array.owner,
                        std::string(ElementTypeName(array.type)), matrix, array.element_count,
                        array.byte_count, absl::ToDoubleSeconds(array.age),
                        absl::ToDoubleSeconds(array.expires_in));
}

// `scalar_count` counts the entries of matrices.
nb::tuple ReduceReference(Client& client, const nb::bytes& token, std::uint64_t byte_offset,
                          std::uint64_t scalar_count, const Task& task, const CallOptions& settings,
                          const nb::object& progress, const std::stop_source* stop) {
  Watch watch(progress);
  const CallOptions options = OptionsOf(settings, stop, watch);
  const MatrixShape shape = task.spec.matrix_shape.value_or(MatrixShape{1, 1});
  const std::uint64_t entries = std::uint64_t{shape.rows} * shape.columns;
  // ToProto rejects a shape without entries.
  const std::uint64_t element_count = entries == 0 ? 0 : scalar_count / entries;
  const ArrayReference reference = {TokenOf(token), byte_offset, element_count};
  return ResultTuple(
      Call(watch, [&] { return client.ReduceReference(task.spec, task.type, reference, options); }));
}

absl::StatusOr<ResidentArray> PutLayout(Client& client, const Task& task, const Layout& layout,
                                        const PutOptions& put, const CallOptions& options) {
  const std::uint64_t byte_count = layout.byte_count();
  const std::optional<MatrixShape>& matrix = task.spec.matrix_shape;
  if (layout.is_contiguous()) {
    return client.PutBytes(task.type, matrix, {layout.first, byte_count}, put, options);
  }
  const StridedReader reader(layout);
  const auto read = [&reader](std::uint64_t offset, std::span<std::byte> buffer) {
    reader.Read(offset, buffer);
  };
  return client.PutGenerated(task.type, matrix, byte_count, read, put, options);
}

// Appends the array to `answers`: if a signal handler raises as soon as this has returned, nobody gets the
// return value, but the server keeps the array.
void Put(Client& client, const View& view, const Task& task, double time_to_live_s, std::string owner,
         const CallOptions& settings, const nb::object& progress, const std::stop_source* stop,
         nb::list answers) {
  Watch watch(progress);
  watch.Protect(view);
  const CallOptions options = OptionsOf(settings, stop, watch);
  const PutOptions put = {absl::Seconds(time_to_live_s), std::move(owner)};
  answers.append(
      ArrayTuple(Call(watch, [&] { return PutLayout(client, task, view.layout(), put, options); })));
}

nb::tuple GetArray(Client& client, const nb::bytes& token, const CallOptions& settings,
                   const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  const std::string name = TokenOf(token);
  return ArrayTuple(Call(watch, [&] { return client.GetArray(name, options); }));
}

nb::list ListArrays(Client& client, const std::string& owner, const CallOptions& settings,
                    const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  nb::list arrays;
  for (const ResidentArray& array : Call(watch, [&] { return client.ListArrays(owner, options); })) {
    arrays.append(ArrayTuple(array));
  }
  return arrays;
}

void DeleteArray(Client& client, const nb::bytes& token, const CallOptions& settings,
                 const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  const std::string name = TokenOf(token);
  Call(watch, [&] { return client.DeleteArray(name, options); });
}

}  // namespace

void BindArrays(nb::class_<Client>& client) {
  client
      .def("reduce_reference", &ReduceReference, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none(), nb::arg().none())
      .def("put", &Put, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg().none(), nb::arg())
      .def("get_array", &GetArray, nb::arg(), nb::arg(), nb::arg().none())
      .def("list_arrays", &ListArrays, nb::arg(), nb::arg(), nb::arg().none())
      .def("delete_array", &DeleteArray, nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace warpfold::python
