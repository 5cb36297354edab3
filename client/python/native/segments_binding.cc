// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/python/native/bindings.h"
#include "client/python/native/call.h"
#include "client/python/native/raise.h"
#include "client/python/native/results.h"
#include "client/python/native/strided_reader.h"
#include "client/python/native/view.h"
#include "client/segments.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

std::string StringOf(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// Where the server writes values, if not into messages: a token, and a byte offset.
using Place = std::optional<std::pair<nb::bytes, std::uint64_t>>;

// The length of each segment, which may be 0, or that of all, at least 1. Arrays come first, since one of a
// single number could be taken for that number.
using Lengths = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Segments = std::variant<Lengths, std::uint64_t>;

// Refers to the lengths, which must not change until the call returns.
SegmentCut CutInto(const Segments& segments, const Place& place) {
  SegmentCut cut;
  if (const auto* lengths = std::get_if<Lengths>(&segments); lengths != nullptr) {
    cut.lengths = {lengths->data(), lengths->size()};
  } else {
    cut.length = std::get<std::uint64_t>(segments);
  }
  if (place.has_value()) cut.results = ResultsReference{StringOf(place->first), place->second};
  return cut;
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

// (segment, error parts) of the first segment without a result for this operator; None if there is none.
nb::object FirstFailure(const SegmentTable& table, std::size_t op) {
  const auto first = std::ranges::find(table.failures, op, &SegmentFailure::op);
  if (first == table.failures.end()) return nb::none();
  const std::vector<SegmentColumn> columns(table.columns.begin(), table.columns.end());
  const std::vector<std::uint64_t> row(columns.size());
  const SegmentFailure failure = {0, op, first->reason};
  const SegmentResults results = {
      .segment_count = 1, .columns = columns, .values = row, .failures = {&failure, 1}};
  return nb::make_tuple(first->segment, ErrorParts(results.Row(0)[op].status));
}

// (outcomes, element count, device, seconds): see _native.pyi.
nb::tuple AnswerOf(const SegmentTable& table) {
  nb::list outcomes;
  for (auto column = table.columns.begin(); column != table.columns.end();) {
    const std::string& name = column->name;
    const nb::object failure = FirstFailure(table, outcomes.size());
    nb::list columns;
    for (; column != table.columns.end() && column->name == name; ++column) {
      if (!failure.is_none()) continue;
      columns.append(nb::make_tuple(
          NameOf(column->kind), nb::bytes(column->bits.data(), column->bits.size() * sizeof(std::uint64_t))));
    }
    outcomes.append(nb::make_tuple(name, columns, failure));
  }
  const SegmentSummary& summary = table.summary;
  return nb::make_tuple(outcomes, summary.element_count, summary.device, TimingsTuple(summary.timings));
}

nb::tuple ReduceSegments(Client& client, const View& view, const std::vector<std::size_t>& order,
                         const Segments& segments, const Place& place, const Task& task,
                         const CallOptions& settings, const nb::object& progress,
                         const std::stop_source* stop) {
  Watch watch(progress);
  watch.Protect(view);
  const CallOptions options = OptionsOf(settings, stop, watch);
  const SegmentCut cut = CutInto(segments, place);
  const Layout layout = view.layout().Permuted(order);
  return AnswerOf(Call(watch, [&] {
    return Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return ReduceLayout(client, task, layout, cut, visitor, options);
    });
  }));
}

nb::tuple ReduceSegmentsReference(Client& client, const nb::bytes& token, std::uint64_t byte_offset,
                                  std::uint64_t scalar_count, const Segments& segments, const Place& place,
                                  const Task& task, const CallOptions& settings,
                                  const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  const SegmentCut cut = CutInto(segments, place);
  const ArrayReference reference = {StringOf(token), byte_offset, scalar_count};
  return AnswerOf(Call(watch, [&] {
    return Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return client.ReduceSegmentsReference(task.spec, task.type, reference, cut, visitor, options);
    });
  }));
}

}  // namespace

void BindSegments(nb::class_<Client>& client) {
  client.def_static("column_kinds", &ColumnKinds)
      .def("reduce_segments", &ReduceSegments, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
           nb::arg(), nb::arg().none(), nb::arg().none())
      .def("reduce_segments_reference", &ReduceSegmentsReference, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace warpfold::python
