// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <variant>
#include <vector>

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
#include "client/translate.h"

namespace warpfold::cli {
namespace {

// Input and server are listened to in turns of this length while both are silent.
constexpr absl::Duration kTurn = absl::Milliseconds(10);

// Sends standard input while reading it.
Outcome ReduceStandardInput(Client& client, const Spec& spec, const Input& input,
                            const CallOptions& options) {
  const absl::Time deadline = absl::Now() + options.timeout;
  absl::StatusOr<Writer> writer = client.OpenWriter(spec, input.type, options);
  if (!writer.ok()) return {absl::OkStatus(), writer.status()};
  StreamCheck check(std::get<StreamInput>(input.source), ElementBytes(spec, input.type));
  std::vector<std::byte> buffer(1 << 20);
  while (true) {
    if (!AwaitStandardInput(kTurn)) {
      // Else the server would take a slow producer for an idle one, and its refusal would not be heard.
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

// An array that the server keeps, or a part of it.
absl::StatusOr<Reduction> ReduceArray(Client& client, const ReduceFlags& flags) {
  const absl::StatusOr<KeptArray> array = FindKeptArray(client, flags);
  if (!array.ok()) return array.status();
  const CallOptions options = {.timeout = TimeLeft(flags.deadline), .request_id = flags.request_id};
  Spec spec = flags.spec;
  spec.matrix_shape = array->matrix_shape;
  return client.ReduceReference(spec, array->type, array->part, options);
}

// The values that there are, and on standard error why there are no others.
int PrintReduction(const Reduction& reduction, bool json) {
  int exit_code = PrintAnswer(json ? ReductionJson(reduction) : ReductionText(reduction));
  for (const OperatorResult& result : reduction.results) {
    if (!result.status.ok() && exit_code != kExitUsage) exit_code = ReportServerError(result.status);
  }
  return exit_code;
}

}  // namespace

int RunReduce(const Server& server, const ReduceFlags& flags) {
  const DeadlineGuard guard(flags.deadline);
  const bool has_segments =
      flags.segment_length != 0 || flags.segment_lengths.has_value() || flags.axis.has_value();
  if (has_segments) return RunSegments(server, flags);
  if (flags.array.has_value()) {
    Client client(server.targets, {.credentials = server.credentials});
    const absl::StatusOr<Reduction> reduction = ReduceArray(client, flags);
    return reduction.ok() ? PrintReduction(*reduction, flags.json) : ReportServerError(reduction.status());
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
  if (!outcome.reduction.ok()) return ReportServerError(outcome.reduction.status());
  const int exit_code = PrintReduction(*outcome.reduction, flags.json);
  if (flags.progress || IsTerminal(stderr)) {
    PrintSummary(*outcome.reduction, outcome.reduction->element_count * ElementBytes(spec, input->type));
  }
  return exit_code;
}

}  // namespace warpfold::cli
