// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the command line does with arrays that the server keeps.
#include <utility>

#include "absl/strings/escaping.h"
#include "client/cli/commands.h"
#include "client/cli/deadline.h"
#include "client/cli/input.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/render.h"
#include "client/client.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {

int RunPut(const Server& server, const PutFlags& flags) {
  const DeadlineGuard guard(flags.deadline);
  ReduceFlags file_flags;  // as a file of `warpfold reduce`
  file_flags.inputs = {flags.input};
  file_flags.type = flags.type;
  file_flags.spec.matrix_shape = flags.matrix_shape;
  if (flags.input == "-") {
    return ReportInputError(
        flags.input,
        absl::InvalidArgumentError("put needs a file: the length of a stream is not known in advance"));
  }
  std::string name;
  const absl::StatusOr<Input> input = OpenInput(file_flags, &name, Archives::kRefused);
  if (!input.ok()) return ReportInputError(flags.input, input.status());
  const FilePiece& piece = std::get<FilesInput>(input->source).pieces.front();
  const std::span<const std::byte> data = piece.data;
  Client client(server.targets, {.credentials = server.credentials});
  Progress progress(data.size());
  const absl::StatusOr<ResidentArray> array = client.PutBytes(
      input->type, input->matrix_shape, data, {.time_to_live = flags.time_to_live, .owner = flags.owner},
      {.timeout = TimeLeft(flags.deadline),
       .on_sent = [&progress](std::uint64_t bytes) { progress.Add(bytes); }});
  const auto delete_it = [&] {
    static_cast<void>(client.DeleteArray(array->token, {.timeout = kShortTimeout}));
  };
  if (absl::Status whole = piece.file.CheckWhole(array.status()); !whole.ok()) {
    // Elements that were no longer there were sent as zeros, and others may be a mixture of old and new ones.
    if (array.ok()) delete_it();
    return ReportInputError(flags.input, whole);
  }
  if (!array.ok()) return ReportCallError(array.status());
  const int exit_code = PrintAnswer(flags.json ? ArrayJson(*array) : ArrayText(*array));
  if (exit_code != kExitOk) delete_it();  // nobody has its token
  return exit_code;
}

// There is no DeadlineGuard: a list may be longer than a pipe holds, and someone who reads it page by page
// may take as long as they like.
int RunArrays(const Server& server, const ArraysFlags& flags) {
  Client client(server.targets, {.credentials = server.credentials});
  const auto arrays = client.ListArrays(flags.owner, {.timeout = kShortTimeout});
  if (!arrays.ok()) return ReportCallError(arrays.status());
  return PrintAnswer(flags.json ? ArraysJson(*arrays) : ArraysText(*arrays));
}

int RunDelete(const Server& server, const DeleteFlags& flags) {
  const DeadlineGuard guard(SteadyNow() + kShortTimeout);
  Client client(server.targets, {.credentials = server.credentials});
  const absl::Status status =
      client.DeleteArray(absl::HexStringToBytes(flags.array), {.timeout = kShortTimeout});
  return status.ok() ? kExitOk : ReportCallError(status);
}

}  // namespace warpfold::cli
