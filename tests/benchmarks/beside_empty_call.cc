// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// beside_empty_call TARGET SECONDS COMMIT [MEMORY_SOCKET GIB...]: how long a call takes compared with an
// empty one, with one caller on one connection. The kinds of calls take turns of 50 ms for this many seconds,
// so that other activity of the machine affects all of them alike: an empty call (the health service's
// Check), an array of 4 KiB, and, if sizes are given, sums over an array of each size that is kept on the
// server and, if there is a GPU, over one in this process's GPU memory. Prints a JSON line for each kind.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/bench/gpu_memory.h"
#include "client/cli/bench/statistics.h"
#include "client/client.h"
#include "client/connections/grpc_process.h"
#include "client/shared_memory.h"
#include "client/tune_grpc.h"

namespace {

using Clock = std::chrono::steady_clock;
using warpfold::Client;
using warpfold::cli::Percentile;

constexpr auto kTurn = std::chrono::milliseconds(50);
constexpr std::size_t kSmall = 4096 / sizeof(float);

struct Kind {
  std::string source;
  std::uint64_t bytes = 0;
  std::function<absl::StatusOr<warpfold::Reduction>()> call;
  std::vector<double> us = {};                // of each call, as this caller measures it
  std::vector<double> beyond_kernel_us = {};  // the same without the time of the call's kernel
  double kernel_us = 0;                       // of all calls
  std::string device = {};
};

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::cerr << value.status() << std::endl;
  std::_Exit(1);
}

double Microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void TakeTurn(Kind& kind) {
  const auto end = Clock::now() + kTurn;
  do {
    const auto begin = Clock::now();
    absl::StatusOr<warpfold::Reduction> answer = kind.call();
    const double us = Microseconds(Clock::now() - begin);
    const warpfold::Reduction reduction = OrExit(std::move(answer));
    const double kernel_us = absl::ToDoubleMicroseconds(reduction.timings.kernel);
    kind.us.push_back(us);
    kind.beyond_kernel_us.push_back(us - kernel_us);
    kind.kernel_us += kernel_us;
    kind.device = reduction.device;
  } while (Clock::now() < end);
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::string text(sizeof("2026-01-01"), '\0');
  text.resize(std::strftime(text.data(), text.size(), "%F", std::gmtime(&now)));
  return text;
}

void AddInPlace(Client& client, const std::string& memory_socket, std::uint64_t gib,
                std::vector<Kind>& kinds) {
  const std::uint64_t bytes = gib << 30;
  const std::vector<float> ones(bytes / sizeof(float), 1.0F);
  const auto add = [&](const std::string& source, std::shared_ptr<void> owner, const std::string& token) {
    const warpfold::ArrayReference reference = {.token = token, .element_count = ones.size()};
    kinds.push_back({.source = source, .bytes = bytes, .call = [&client, owner, reference] {
                       return client.ReduceReference(warpfold::Spec{.operators = {"sum"}},
                                                     warpfold::ElementType::kFloat32, reference);
                     }});
  };
  const std::string token = OrExit(client.Put(ones)).token;
  const auto forget = [&client, token](void*) { client.DeleteArray(token).IgnoreError(); };
  add("resident", std::shared_ptr<void>(nullptr, forget), token);
  auto gpu = warpfold::cli::GpuMemory::CopyOf(std::as_bytes(std::span(ones)));
  if (absl::IsUnavailable(gpu.status())) return;
  const auto connection = OrExit(warpfold::MemoryConnection::Open(memory_socket));
  const auto memory = std::make_shared<warpfold::cli::GpuMemory>(OrExit(std::move(gpu)));
  auto registered =
      std::make_shared<warpfold::RegisteredMemory>(OrExit(connection.RegisterGpu(memory->range())));
  // The registration goes before the memory.
  auto owner = std::make_shared<std::pair<decltype(memory), decltype(registered)>>(memory, registered);
  add("ipc", owner, registered->token());
}

std::vector<Kind> KindsOf(Client& client, const std::vector<std::string>& arguments) {
  static const std::vector<float> small(kSmall, 1.0F);
  std::vector<Kind> kinds;
  kinds.push_back({.source = "nothing", .call = [&client]() -> absl::StatusOr<warpfold::Reduction> {
                     if (const auto serves = client.IsServing(); !serves.ok()) return serves.status();
                     return warpfold::Reduction{};
                   }});
  kinds.push_back({.source = "chunks", .bytes = kSmall * sizeof(float), .call = [&client] {
                     return client.Reduce(warpfold::Spec{.operators = {"sum"}}, small);
                   }});
  for (std::size_t i = 5; i < arguments.size(); ++i) {
    AddInPlace(client, arguments[4], std::strtoull(arguments[i].c_str(), nullptr, 10), kinds);
  }
  return kinds;
}

void Print(Kind& kind, double empty_us, const std::vector<std::string>& arguments) {
  std::ranges::sort(kind.us);
  std::ranges::sort(kind.beyond_kernel_us);
  const double p50 = Percentile(kind.us, 0.5);
  const nlohmann::ordered_json line = {{"bench", "beside_empty_call"},
                                       {"date", Today()},
                                       {"commit", arguments[3]},
                                       {"device", kind.device},
                                       {"transport", arguments[1].starts_with("unix:") ? "unix" : "tcp"},
                                       {"source", kind.source},
                                       {"operator", "sum"},
                                       {"dtype", "float32"},
                                       {"bytes", kind.bytes},
                                       {"calls", kind.us.size()},
                                       {"p10_us", Percentile(kind.us, 0.1)},
                                       {"p50_us", p50},
                                       {"p90_us", Percentile(kind.us, 0.9)},
                                       {"p99_us", Percentile(kind.us, 0.99)},
                                       {"kernel_us", kind.kernel_us / static_cast<double>(kind.us.size())},
                                       {"beyond_kernel_p10_us", Percentile(kind.beyond_kernel_us, 0.1)},
                                       {"beyond_kernel_p50_us", Percentile(kind.beyond_kernel_us, 0.5)},
                                       {"beyond_kernel_p90_us", Percentile(kind.beyond_kernel_us, 0.9)},
                                       {"empty_p50_us", empty_us},
                                       {"times_empty", p50 / empty_us}};
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (argc < 4 || argc == 5) {
    std::cerr << "usage: beside_empty_call TARGET SECONDS COMMIT [MEMORY_SOCKET GIB...]" << std::endl;
    return 2;
  }
  warpfold::LookUpCpuFrequency();
  warpfold::TuneGrpc().IgnoreError();
  Client client(arguments[1], {.connections = 1});
  std::vector<Kind> kinds = KindsOf(client, arguments);
  for (Kind& kind : kinds) {  // the first call connects and loads kernels
    TakeTurn(kind);
    kind = {.source = kind.source, .bytes = kind.bytes, .call = kind.call};
  }
  const auto end = Clock::now() + std::chrono::duration<double>(std::atof(arguments[2].c_str()));
  while (Clock::now() < end) {
    for (Kind& kind : kinds) TakeTurn(kind);
  }
  std::vector<double> empty_us = kinds.front().us;
  std::ranges::sort(empty_us);
  for (Kind& kind : kinds) Print(kind, Percentile(empty_us, 0.5), arguments);
}
