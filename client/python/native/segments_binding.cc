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
  cut.restarts = true;  // see Outcomes::Add
  return cut;
}

// What has come for each operator. An operator without a result for one segment has none at all, so that only
// its first failure is kept, and no values: there may be as many failures as segments.
class Outcomes {
 public:
  struct Column {
    SegmentColumn about;
    std::size_t op = 0;  // its operator's position
    std::vector<std::uint64_t> bits;
  };

  // A visitor (segments.h), which begins anew when it is given no segments.
  void Add(const SegmentResults& results) {
    if (results.segment_count == 0) return Begin(results.columns);
    for (const SegmentFailure& failure : results.failures) {
      if (!failures_[failure.op].has_value()) failures_[failure.op] = failure;
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      Column& column = columns_[i];
      if (failures_[column.op].has_value()) {
        column.bits = {};
      } else {
        const std::span<const std::uint64_t> more = results.Column(i);
        column.bits.insert(column.bits.end(), more.begin(), more.end());
      }
    }
  }

  const std::vector<Column>& columns() const { return columns_; }
  const std::optional<SegmentFailure>& failure(std::size_t op) const { return failures_[op]; }
  std::size_t operators() const { return failures_.size(); }

 private:
  void Begin(std::span<const SegmentColumn> columns) {
    columns_.clear();
    failures_.clear();
    for (const SegmentColumn& column : columns) {
      if (columns_.empty() || columns_.back().about.name != column.name) failures_.emplace_back();
      columns_.push_back({.about = column, .op = failures_.size() - 1, .bits = {}});
    }
  }

  std::vector<Column> columns_;
  std::vector<std::optional<SegmentFailure>> failures_;  // of each operator
};

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
nb::object FailureOf(const Outcomes& outcomes, std::size_t op) {
  if (!outcomes.failure(op).has_value()) return nb::none();
  std::vector<SegmentColumn> columns;
  for (const Outcomes::Column& column : outcomes.columns()) columns.push_back(column.about);
  const std::vector<std::uint64_t> row(columns.size());
  const SegmentFailure failure = {0, op, outcomes.failure(op)->reason};
  const SegmentResults results = {
      .segment_count = 1, .columns = columns, .values = row, .failures = {&failure, 1}};
  return nb::make_tuple(outcomes.failure(op)->segment, ErrorParts(results.Row(0)[op].status));
}

// (outcomes, element count, device, seconds): see _native.pyi.
nb::tuple AnswerOf(const Outcomes& outcomes, const SegmentSummary& summary) {
  nb::list answers;
  auto column = outcomes.columns().begin();
  for (std::size_t op = 0; op < outcomes.operators(); ++op) {
    const std::string& name = column->about.name;
    const nb::object failure = FailureOf(outcomes, op);
    nb::list columns;
    for (; column != outcomes.columns().end() && column->op == op; ++column) {
      if (!failure.is_none()) continue;
      columns.append(
          nb::make_tuple(NameOf(column->about.kind),
                         nb::bytes(column->bits.data(), column->bits.size() * sizeof(std::uint64_t))));
    }
    answers.append(nb::make_tuple(name, columns, failure));
  }
  return nb::make_tuple(answers, summary.element_count, summary.device, TimingsTuple(summary.timings));
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
  Outcomes outcomes;
  const auto visitor = [&outcomes](const SegmentResults& results) { outcomes.Add(results); };
  const SegmentSummary summary =
      Call(watch, [&] { return ReduceLayout(client, task, layout, cut, visitor, options); });
  return AnswerOf(outcomes, summary);
}

nb::tuple ReduceSegmentsReference(Client& client, const nb::bytes& token, std::uint64_t byte_offset,
                                  std::uint64_t scalar_count, const Segments& segments, const Place& place,
                                  const Task& task, const CallOptions& settings,
                                  const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  const SegmentCut cut = CutInto(segments, place);
  const ArrayReference reference = {StringOf(token), byte_offset, scalar_count};
  Outcomes outcomes;
  const auto visitor = [&outcomes](const SegmentResults& results) { outcomes.Add(results); };
  const SegmentSummary summary = Call(watch, [&] {
    return client.ReduceSegmentsReference(task.spec, task.type, reference, cut, visitor, options);
  });
  return AnswerOf(outcomes, summary);
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
