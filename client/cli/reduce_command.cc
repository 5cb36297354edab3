// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <variant>
#include <vector>

#include "client/calls/translate.h"
#include "client/cli/commands.h"
#include "client/cli/deadline.h"
#include "client/cli/files.h"
#include "client/cli/flags.h"
#include "client/cli/input.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/render.h"
#include "client/cli/standard_input.h"
#include "client/cli/stream_check.h"
#include "client/client.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

// Input and server are listened to in turns of this length while both are silent.
constexpr absl::Duration kTurn = absl::Milliseconds(10);

// Sends standard input while reading it.
Outcome ReduceStandardInput(Client& client, const Spec& spec, const Input& input,
                            const CallOptions& options) {
  const absl::Time deadline = SteadyNow() + options.timeout;
  absl::StatusOr<Writer> writer = client.OpenWriter(spec, input.type, options);
  if (!writer.ok()) return {absl::OkStatus(), writer.status()};
  StreamCheck check(std::get<StreamInput>(input.source), input.type, spec.matrix_shape);
  std::vector<std::byte> buffer(1 << 20);
  while (true) {
    if (!AwaitStandardInput(kTurn)) {
      // Otherwise the server would mistake a slow producer for an idle one, and its rejection would not be
      // noticed.
      if (absl::Status status = writer->Flush(); !status.ok()) return {absl::OkStatus(), status};
      if (writer->AwaitEnd(kTurn)) return {absl::OkStatus(), writer->Commit()};
      continue;
    }
    const absl::StatusOr<std::size_t> size = ReadStandardInput(buffer, deadline);
    if (!size.ok()) return {size.status()};
    if (*size == 0) break;
    const std::span<const std::byte> bytes = std::span(buffer).first(*size);
    if (absl::Status status = check.Add(bytes); !status.ok()) return {status};
    if (absl::Status status = writer->Write(bytes); !status.ok()) return {absl::OkStatus(), status};
  }
  if (absl::Status status = check.End(); !status.ok()) return {status};
  return {absl::OkStatus(), writer->Commit()};
}

Outcome Reduce(Client& client, const Spec& spec, Input& input, const ReduceFlags& flags) {
  Progress progress(input.byte_count(), flags.progress);
  const CallOptions options = {.timeout = TimeLeft(flags.deadline),
                               .request_id = flags.request_id,
                               .streams = flags.streams,
                               .checksum = flags.checksum,
                               .on_sent = [&progress](std::uint64_t bytes) { progress.Add(bytes); }};
  if (auto* files = std::get_if<FilesInput>(&input.source)) {
    return ReduceFiles(client, spec, input.type, *files, options);
  }
  if (const auto* generated = std::get_if<GeneratedInput>(&input.source)) {
    return {absl::OkStatus(),
            client.ReduceGenerated(spec, input.type, generated->byte_count, generated->generator, options)};
  }
  return ReduceStandardInput(client, spec, input, options);
}

// Prints the values, and on standard error why others are missing, and what was done.
int PrintReduction(const Reduction& reduction, std::uint64_t element_bytes, const ReduceFlags& flags) {
  int exit_code = PrintAnswer(flags.json ? ReductionJson(reduction) : ReductionText(reduction));
  for (const OperatorResult& result : reduction.results) {
    if (!result.status.ok() && exit_code != kExitUsage) exit_code = ReportCallError(result.status);
  }
  PrintSummary(flags.progress, {reduction.element_count, reduction.element_count * element_bytes,
                                reduction.timings.total, reduction.device});
  return exit_code;
}

// Reduces an array that the server keeps, or a part of it.
int ReduceArray(Client& client, const ReduceFlags& flags) {
  const absl::StatusOr<KeptArray> array = FindKeptArray(client, flags);
  if (!array.ok()) return ReportCallError(array.status());
  const CallOptions options = {.timeout = TimeLeft(flags.deadline), .request_id = flags.request_id};
  Spec spec = flags.spec;
  spec.matrix_shape = array->matrix_shape;
  const absl::StatusOr<Reduction> reduction = client.ReduceReference(spec, array->type, array->part, options);
  if (!reduction.ok()) return ReportCallError(reduction.status());
  return PrintReduction(*reduction, ElementBytes(spec, array->type), flags);
}

}  // namespace

int RunReduce(const Server& server, const ReduceFlags& flags) {
  const DeadlineGuard guard(flags.deadline);
  const bool has_segments =
      flags.segment_length != 0 || flags.segment_lengths.has_value() || flags.axis.has_value();
  if (has_segments) return RunSegments(server, flags);
  if (flags.array.has_value()) {
    Client client(server.targets, {.credentials = server.credentials});
    return ReduceArray(client, flags);
  }
  std::string name;
  absl::StatusOr<Input> input = OpenInput(flags, &name);
  if (!input.ok()) return ReportInputError(name, input.status());
  Spec spec = flags.spec;
  spec.matrix_shape = input->matrix_shape;

  Client client(server.targets, {.credentials = server.credentials});
  const Outcome outcome = Reduce(client, spec, *input, flags);
  if (!outcome.input_error.ok()) {
    return ReportInputError(outcome.bad_input.empty() ? name : outcome.bad_input, outcome.input_error);
  }
  if (!outcome.reduction.ok()) return ReportCallError(outcome.reduction.status());
  return PrintReduction(*outcome.reduction, ElementBytes(spec, input->type), flags);
}

}  // namespace warpfold::cli
