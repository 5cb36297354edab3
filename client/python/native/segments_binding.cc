// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "client/python/native/bindings.h"
#include "client/python/native/call.h"
#include "client/python/native/raise.h"
#include "client/python/native/strided_reader.h"
#include "client/python/native/view.h"
#include "client/segments.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

std::string StringOf(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// Where the server writes values, if not into messages: a token, and a byte offset.
using Place = std::optional<std::pair<nb::bytes, std::uint64_t>>;

// Cuts into `count` segments of `length` elements each. If the length is 0, it lists the lengths one by one.
class EvenCut {
 public:
  EvenCut(std::uint64_t length, std::uint64_t count, const Place& place)
      : length_(length), lengths_(length == 0 ? count : 0) {
    if (place.has_value()) results_ = ResultsReference{StringOf(place->first), place->second};
  }
  SegmentCut cut() const { return {.length = length_, .lengths = lengths_, .results = results_}; }

 private:
  const std::uint64_t length_;
  const std::vector<std::uint64_t> lengths_;
  std::optional<ResultsReference> results_;
};

// The view with its dimensions in this order.
Layout Permuted(const Layout& layout, const std::vector<std::size_t>& order) {
  Layout permuted = layout;
  for (std::size_t i = 0; i < order.size(); ++i) {
    permuted.shape[i] = layout.shape.at(order[i]);
    permuted.strides[i] = layout.strides.at(order[i]);
  }
  return permuted;
}

absl::StatusOr<SegmentSummary> ReduceLayout(Client& client, const Task& task, const Layout& layout,
                                            const SegmentCut& cut, const SegmentVisitor& visitor,
                                            const CallOptions& options) {
  const std::uint64_t byte_count = layout.byte_count();
  if (layout.is_contiguous()) {
    return client.ReduceSegmentsOf(task.spec, task.type, {layout.first, byte_count}, cut, visitor, options);
  }
  const StridedReader reader(layout);
  const auto read = [&reader](std::uint64_t offset, std::span<std::byte> buffer) {
    reader.Read(offset, buffer);
  };
  return client.ReduceSegmentsGenerated(task.spec, task.type, byte_count, read, cut, visitor, options);
}

const char* NameOf(SegmentColumn::Kind kind) {
  switch (kind) {
    case SegmentColumn::Kind::kInt64:
      return "int64";
    case SegmentColumn::Kind::kDouble:
      return "float64";
    case SegmentColumn::Kind::kBool:
      return "bool";
    default:
      return "uint64";
  }
}

// The kinds of the columns of the only operator.
std::vector<std::string> ColumnKinds(const Task& task) {
  const absl::StatusOr<std::vector<SegmentColumn>> columns = SegmentColumnsOf(task.spec, task.type);
  if (!columns.ok()) Raise(columns.status());
  std::vector<std::string> kinds;
  for (const SegmentColumn& column : *columns) kinds.emplace_back(NameOf(column.kind));
  return kinds;
}

// Kinds and bits of the columns of the only operator; no bits if the server has written them. Raises the
// error of the first segment that has one.
nb::list Bits(const SegmentTable& table) {
  if (!table.failures.empty()) {
    const SegmentFailure& first = table.failures.front();
    std::vector<SegmentColumn> columns(table.columns.begin(), table.columns.end());
    const std::vector<std::uint64_t> row(columns.size());
    const SegmentFailure failure = {0, first.op, first.reason};
    const SegmentResults results = {
        .segment_count = 1, .columns = columns, .values = row, .failures = {&failure, 1}};
    Raise(results.Row(0)[first.op].status);
  }
  nb::list columns;
  for (const SegmentTable::Column& column : table.columns) {
    columns.append(nb::make_tuple(NameOf(column.kind),
                                  nb::bytes(column.bits.data(), column.bits.size() * sizeof(std::uint64_t))));
  }
  return columns;
}

nb::list ReduceSegments(Client& client, const View& view, const std::vector<std::size_t>& order,
                        std::uint64_t length, std::uint64_t count, const Place& place, const Task& task,
                        const CallOptions& settings, const nb::object& progress,
                        const std::stop_source* stop) {
  Watch watch(progress);
  watch.Protect(view);
  const CallOptions options = OptionsOf(settings, stop, watch);
  const EvenCut cut(length, count, place);
  const Layout layout = Permuted(view.layout(), order);
  return Bits(Call(watch, [&] {
    return Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return ReduceLayout(client, task, layout, cut.cut(), visitor, options);
    });
  }));
}

nb::list ReduceSegmentsReference(Client& client, const nb::bytes& token, std::uint64_t byte_offset,
                                 std::uint64_t length, std::uint64_t count, const Place& place,
                                 const Task& task, const CallOptions& settings,
                                 const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  const EvenCut cut(length, count, place);
  const ArrayReference reference = {StringOf(token), byte_offset, length * count};
  return Bits(Call(watch, [&] {
    return Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return client.ReduceSegmentsReference(task.spec, task.type, reference, cut.cut(), visitor, options);
    });
  }));
}

}  // namespace

void BindSegments(nb::class_<Client>& client) {
  client.def_static("column_kinds", &ColumnKinds)
      .def("reduce_segments", &ReduceSegments, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none())
      .def("reduce_segments_reference", &ReduceSegmentsReference, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace warpfold::python
