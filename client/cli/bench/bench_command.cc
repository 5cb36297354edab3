// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/bench/caller.h"
#include "client/cli/bench/load.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/sides.h"
#include "client/cli/commands.h"
#include "client/cli/mapped_file.h"
#include "client/cli/output.h"
#include "client/connections/grpc_process.h"

namespace warpfold::cli {
namespace {

// A side, ready to be loaded.
struct Contender {
  SideResult result = {};
  std::optional<int> pid = {};
  std::vector<Caller> callers = {};
  std::vector<Walk> walks = {};  // one for each caller
};

absl::StatusOr<Caller> MakeCaller(const Side& side, const BenchFlags& flags,
                                  std::span<const std::byte> memory, const MemoryConnection* connection,
                                  absl::Duration* handed_over) {
  if (side.caller == CallerKind::kRawSocket) return MakeRawSocketCaller(side.server.target(), flags);
  if (side.caller == CallerKind::kGenerated) return MakeGeneratedCaller(side.server, flags);
  if (flags.source == BenchSource::kChunks) return MakeGrpcCaller(side.server, flags);
  return MakeReferenceCaller(side.server, flags, memory, connection, handed_over);
}

absl::StatusOr<Contender> Prepare(const Side& side, const BenchFlags& flags, const BenchMemory& memory) {
  Contender contender = {.result = {.name = side.name}, .pid = side.pid};
  // One for all callers: a server allows a user fewer connections than there may be callers.
  std::optional<MemoryConnection> connection;
  if (!side.memory_socket.empty() && NeedsMemoryConnection(flags)) {
    absl::StatusOr<MemoryConnection> opened = MemoryConnection::Open(side.memory_socket);
    if (!opened.ok()) return opened.status();
    connection = *std::move(opened);
  }
  const MemoryConnection* const shared = connection.has_value() ? &*connection : nullptr;
  absl::Duration handed_over;
  for (int i = 0; i < flags.callers; ++i) {
    const std::span<const std::byte> part = memory.PartOf(i, flags.callers);
    absl::StatusOr<Caller> caller = MakeCaller(side, flags, part, shared, &handed_over);
    if (!caller.ok()) return caller.status();
    contender.callers.push_back(*std::move(caller));
    contender.walks.emplace_back(part, flags.bytes);
  }
  if (flags.source != BenchSource::kChunks) {
    contender.result.set_up_ms = absl::ToDoubleMilliseconds(handed_over);
  }
  return contender;
}

absl::StatusOr<LoadResult> Load(Contender& contender, double seconds, const BenchFlags& flags) {
  const LoadTimes times = {.duration = absl::Seconds(seconds), .pause = absl::Milliseconds(flags.pause_ms)};
  absl::StatusOr<LoadResult> result = RunLoad(contender.callers, contender.walks, times, contender.pid);
  if (result.ok()) return result;
  absl::Status named(result.status().code(),
                     absl::StrCat("side ", contender.result.name, ": ", result.status().message()));
  // The reason, and whether the client itself has rejected the call.
  result.status().ForEachPayload(
      [&named](absl::string_view type, const absl::Cord& payload) { named.SetPayload(type, payload); });
  return named;
}

absl::StatusOr<std::vector<SideResult>> Race(std::vector<Contender> contenders, const BenchFlags& flags) {
  for (Contender& contender : contenders) {
    const absl::StatusOr<LoadResult> warm = Load(contender, flags.warm_up_s, flags);
    if (!warm.ok()) return warm.status();
  }
  for (int round = 0; round < flags.rounds; ++round) {
    for (Contender& contender : contenders) {
      absl::StatusOr<LoadResult> result = Load(contender, flags.duration_s, flags);
      if (!result.ok()) return result.status();
      contender.result.rounds.push_back(*std::move(result));
    }
  }
  std::vector<SideResult> results;
  for (Contender& contender : contenders) results.push_back(std::move(contender.result));
  return results;
}

absl::StatusOr<std::vector<SideResult>> Measure(const std::vector<Side>& sides, const BenchFlags& flags) {
  const std::uint64_t arrays = flags.bytes * static_cast<std::uint64_t>(flags.callers);
  const BenchMemory memory(flags.type, flags.bytes == 0 ? 0 : std::max(flags.memory_bytes, arrays));
  std::vector<Contender> contenders;
  for (const Side& side : sides) {
    absl::StatusOr<Contender> contender = Prepare(side, flags, memory);
    if (!contender.ok()) return contender.status();
    contenders.push_back(*std::move(contender));
  }
  return Race(std::move(contenders), flags);
}

// Callers connect at the same time, and gRPC mistakes an errno that is set in between for connect()'s
// (client/connections/grpc_process.h). Besides what abseil looks up, the C library counts the processors when
// it makes its ninth arena, using a file that a container may lack. If it is told how many arenas there may
// be, namely as many as it would use, it does not count.
void PrepareToConnect() {
  constexpr int kArenasOfAProcessor = 8;  // mallopt(3)
  mallopt(M_ARENA_MAX, kArenasOfAProcessor * static_cast<int>(std::thread::hardware_concurrency()));
  LookUpCpuFrequency();
}

}  // namespace

int RunBench(const Server& server, const BenchFlags& flags) {
  PrepareToConnect();
  AllowManyFiles();
  const SocketFolder folder;
  const absl::StatusOr<std::vector<Side>> sides = StartSides(server, flags, folder);
  if (!sides.ok()) return ReportCallError(sides.status());
  const absl::StatusOr<std::vector<SideResult>> results = Measure(*sides, flags);
  if (!results.ok()) return ReportCallError(results.status());
  const auto lines = ReportLines(flags, TransportOf(sides->front().server.target()), *results);
  return PrintAnswer(flags.json ? JsonText(lines) : flags.csv ? CsvText(lines) : TableText(lines));
}

}  // namespace warpfold::cli
