// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/calls/translate.h"
#include "client/cli/commands.h"
#include "client/cli/deadline.h"
#include "client/cli/flags.h"
#include "client/cli/input.h"
#include "client/cli/mapped_file.h"
#include "client/cli/npy.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/refuse.h"
#include "client/cli/render.h"
#include "client/client.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"

namespace warpfold::cli {
namespace {

absl::StatusOr<std::vector<std::uint64_t>> ReadLengths(const std::string& path) {
  SurviveShortenedFiles();
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<NpyArray> array = ParseNpy(file->bytes());
  if (!array.ok()) return array.status();
  if (array->shape.size() != 1 ||
      (array->type != ElementType::kInt64 && array->type != ElementType::kUint64)) {
    return Refuse("lengths are a one-dimensional array of int64 or uint64");
  }
  std::vector<std::uint64_t> lengths(array->data.size() / sizeof(std::uint64_t));
  std::ranges::copy(array->data, std::as_writable_bytes(std::span(lengths)).begin());
  if (absl::Status whole = file->CheckWhole(); !whole.ok()) return whole;
  if (array->type == ElementType::kUint64) return lengths;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto length = static_cast<std::int64_t>(lengths[i]);
    if (length < 0) return Refuse(absl::StrCat("length ", i, " is negative: ", length));
  }
  return lengths;
}

absl::Status CheckScalars(const std::optional<MatrixShape>& matrix_shape) {
  if (!matrix_shape.has_value()) return absl::OkStatus();
  return Refuse(absl::StrCat("segments are of scalars, not of ", matrix_shape->rows, "x",
                             matrix_shape->columns, " matrices"));
}

// A file of a hundred bytes can name more empty rows than there is memory for their lengths: 1 GiB.
constexpr std::uint64_t kMaxEmptyRows = std::uint64_t{1} << 27;

// The rows along the axis, which must be the last one: along others segments would not be consecutive. If
// that axis has no elements, rows cannot be counted by elements, and the array is split by `lengths`, which
// this fills.
absl::StatusOr<SegmentCut> CutAlong(std::int64_t axis, const std::vector<std::uint64_t>& shape,
                                    std::vector<std::uint64_t>& lengths) {
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (last < 0) return Refuse("--axis needs an .npy file that has axes");
  if (axis != last && axis != -1) {
    return Refuse(absl::StrCat("--axis must be the array's last axis, ", last, " or -1"));
  }
  if (shape.back() > 0) return SegmentCut{.length = shape.back()};
  const auto others = std::span(shape).first(shape.size() - 1);
  std::uint64_t rows = std::ranges::find(others, 0u) == others.end() ? 1 : 0;
  for (const std::uint64_t length : others) {
    if (__builtin_mul_overflow(rows, length, &rows) || rows > kMaxEmptyRows) {
      return Refuse(absl::StrCat("--axis: more than ", kMaxEmptyRows, " rows of no elements"));
    }
  }
  if (rows == 0) return SegmentCut{.length = 1};  // there are no segments then, however it is split
  lengths.assign(rows, 0);
  return SegmentCut{.lengths = lengths};
}

// Prints results as they come.
class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}

  void Print(const SegmentResults& results) {
    for (const SegmentFailure& failure : results.failures) {
      overflows_ |= failure.reason == SegmentFailure::Reason::kOverflow;
    }
    std::string text;
    for (std::uint64_t row = 0; row < results.segment_count; ++row) {
      const std::vector<OperatorResult> values = results.Row(row);
      const std::uint64_t segment = results.first_segment + row;
      absl::StrAppend(&text, json_ ? SegmentJson(segment, values) : SegmentText(segment, values));
    }
    if (exit_code_ == kExitOk && !text.empty()) exit_code_ = PrintAnswer(text);
  }

  // kExitOk as long as standard output accepts them.
  int exit_code() const { return exit_code_; }
  // Whether a result is missing because of an overflow, and not because its segment is empty.
  bool overflows() const { return overflows_; }

 private:
  const bool json_;
  bool overflows_ = false;
  int exit_code_ = kExitOk;
};

absl::StatusOr<SegmentSummary> Reduce(Client& client, const Spec& spec, const Input& input,
                                      const ReduceFlags& flags, const SegmentCut& cut, Printer& printer) {
  Progress progress(input.byte_count(), flags.progress, /*may_draw=*/!IsTerminal(stdout));
  const CallOptions options = {.timeout = TimeLeft(flags.deadline),
                               .keep_going = [&printer] { return printer.exit_code() == kExitOk; },
                               .request_id = flags.request_id,
                               .checksum = flags.checksum,
                               .on_sent = [&progress](std::uint64_t bytes) { progress.Add(bytes); }};
  const auto print = [&printer](const SegmentResults& results) { printer.Print(results); };
  if (const auto* files = std::get_if<FilesInput>(&input.source)) {
    return client.ReduceSegmentsOf(spec, input.type, files->pieces.front().data, cut, print, options);
  }
  const auto& generated = std::get<GeneratedInput>(input.source);
  return client.ReduceSegmentsGenerated(spec, input.type, generated.byte_count, generated.generator, cut,
                                        print, options);
}

int Report(const absl::StatusOr<SegmentSummary>& summary, const Printer& printer, std::uint64_t element_bytes,
           const ReduceFlags& flags) {
  if (printer.exit_code() != kExitOk) return printer.exit_code();
  if (!summary.ok()) return ReportCallError(summary.status());
  PrintSummary(flags.progress, {summary->element_count, summary->element_count * element_bytes,
                                summary->timings.total, summary->device});
  if (summary->failure_count == 0) return kExitOk;
  // The command ends as a call for one of these segments would have ended.
  const std::string missing =
      absl::StrCat(summary->failure_count, summary->failure_count == 1 ? " segment result has no value"
                                                                       : " segment results have no value");
  return ReportCallError(printer.overflows()
                             ? MakeError(absl::StatusCode::kOutOfRange, reason::kOverflow, missing)
                             : MakeError(absl::StatusCode::kInvalidArgument, reason::kEmptyArray, missing));
}

// Segments are sent from where they are.
absl::Status CheckFiles(const FilesInput& files, absl::Time deadline) {
  if (files.pieces.size() > 1) return Refuse("segments are taken from one file only");
  const FilePiece& piece = files.pieces.front();
  if (piece.packed()) return Refuse("segments are not taken from a compressed array");
  return piece.member.has_value() ? piece.member->CheckStored(deadline) : absl::OkStatus();
}

int RunKept(Client& client, const ReduceFlags& flags, const SegmentCut& cut) {
  const absl::StatusOr<KeptArray> array = FindKeptArray(client, flags);
  if (!array.ok()) return ReportCallError(array.status());
  if (absl::Status scalars = CheckScalars(array->matrix_shape); !scalars.ok())
    return ReportInputError("--array", scalars);
  Spec spec = flags.spec;
  spec.matrix_shape = array->matrix_shape;
  Printer printer(flags.json);
  const CallOptions options = {.timeout = TimeLeft(flags.deadline),
                               .keep_going = [&printer] { return printer.exit_code() == kExitOk; },
                               .request_id = flags.request_id};
  const absl::StatusOr<SegmentSummary> summary = client.ReduceSegmentsReference(
      spec, array->type, array->part, cut,
      [&printer](const SegmentResults& results) { printer.Print(results); }, options);
  return Report(summary, printer, ElementBytes(spec, array->type), flags);
}

}  // namespace

int RunSegments(const Server& server, const ReduceFlags& flags) {
  std::vector<std::uint64_t> lengths;
  if (flags.segment_lengths.has_value()) {
    absl::StatusOr<std::vector<std::uint64_t>> read = ReadLengths(*flags.segment_lengths);
    if (!read.ok()) return ReportInputError(*flags.segment_lengths, read.status());
    lengths = *std::move(read);
  }
  SegmentCut cut = {.length = flags.segment_length, .lengths = lengths};
  Client client(server.targets, {.credentials = server.credentials});
  if (flags.array.has_value()) {
    if (flags.axis.has_value()) return ReportInputError("input", Refuse("--axis needs an .npy file"));
    return RunKept(client, flags, cut);
  }
  if (flags.inputs == std::vector<std::string>{"-"}) {
    return ReportInputError("-", Refuse("segments are not taken from standard input"));
  }
  std::string name;
  const absl::StatusOr<Input> input = OpenInput(flags, &name);
  if (!input.ok()) return ReportInputError(name, input.status());
  if (absl::Status scalars = CheckScalars(input->matrix_shape); !scalars.ok())
    return ReportInputError(name, scalars);
  const auto* const files = std::get_if<FilesInput>(&input->source);
  if (files != nullptr) {
    if (absl::Status status = CheckFiles(*files, flags.deadline); !status.ok())
      return ReportInputError(name, status);
  }
  if (flags.axis.has_value()) {
    const absl::StatusOr<SegmentCut> along = CutAlong(*flags.axis, input->shape, lengths);
    if (!along.ok()) return ReportInputError(name, along.status());
    cut = *along;
  }
  Spec spec = flags.spec;
  spec.matrix_shape = input->matrix_shape;
  Printer printer(flags.json);
  const absl::StatusOr<SegmentSummary> summary = Reduce(client, spec, *input, flags, cut, printer);
  if (files != nullptr) {
    absl::Status whole = files->pieces.front().file.CheckWhole(summary.status());
    if (!whole.ok()) return ReportInputError(name, whole);
  }
  return Report(summary, printer, ElementBytes(spec, input->type), flags);
}

}  // namespace warpfold::cli
