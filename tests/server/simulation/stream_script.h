// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the clients of the simulation send, and the responses that they should get.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "kernels/reduction.h"
#include "server/core/admission/admission.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

using Random = std::mt19937_64;

// A number below `n`, which is not 0.
inline std::size_t Below(Random& random, std::size_t n) { return random() % n; }
inline bool OneIn(Random& random, std::size_t n) { return Below(random, n) == 0; }

struct Script {
  struct Line {
    std::string bytes;
    bool carries_something = true;  // an empty chunk does not
    std::size_t array_bytes = 0;
  };

  std::string method;
  std::string peer;
  Admission::Kind kind = Admission::Kind::kReduction;
  std::vector<Line> lines;
  // The client sends this many lines, then it is silent; after all of them it ends the stream.
  std::size_t says = 0;
  bool ends = true;
  bool leaves = false;  // at some time
  absl::Duration patience = absl::InfiniteDuration();

  // If the connection breaks after this many lines, they are a whole array nevertheless.
  std::size_t whole_after = 0;

  // The reason of the error that the lines deserve, "" if they deserve a result.
  std::string reason;
  // What a script of ArrayService works on. A put has the array's bytes, its owner and its time to live,
  // where 0 means for ever. A list has the owner. Calls that name an array by its token have the token.
  struct Kept {
    std::string token;
    std::string owner;
    std::string bytes;
    absl::Duration time_to_live;
  };
  Kept kept;
  // For segments: the rows of the result, and the number of messages (of reflection, too) after which the
  // client takes no more.
  std::vector<std::vector<std::uint64_t>> rows;
  // Where their values go if not into messages, column after column.
  std::span<const std::uint64_t> columns;
  bool has_columns = false;
  std::size_t takes = ~std::size_t{0};
  bool takes_answer = true;
  // The result: a v1::Reduction, without the parts that depend on the device. Empty for calls that are not
  // reductions.
  std::string reduction;
};

// Whether calls of this kind are counted among those in progress, and stopped by a drain.
inline bool IsWork(Admission::Kind kind) {
  using Kind = Admission::Kind;
  return kind != Kind::kSmall && kind != Kind::kCheck && kind != Kind::kWatch;
}

// One of three clients, on one of its connections.
inline constexpr std::size_t kHosts = 3;
std::string PeerOf(std::size_t host, std::size_t port = 1024);
std::string RandomPeer(Random& random);

inline constexpr std::size_t kMaxClients = 8;

// The tokens of arrays that the server keeps: of the integers and of the floats of ArrayData.
struct KeptArrays {
  std::string ints;
  std::string floats;
  std::string resident_ints;  // likewise, but DeleteArray may end them
  std::string resident_floats;
  // Of each client, memory of the host for results of segments.
  std::array<std::string, kMaxClients> results;
  std::array<std::span<std::uint64_t>, kMaxClients> results_memory;
};

// The data that scripts reduce all or the beginning of.
std::span<const std::byte> ArrayData(bool floats);
inline std::span<const std::byte> ArrayData(bool floats, std::size_t elements) {
  return ArrayData(floats).first(elements * 4);
}
// How many elements a script's array has.
std::size_t RandomSize(Random& random);
// A sum and a variance, whose ddof tells whose script it is.
v1::ReductionSpec SpecOf(bool floats, std::uint64_t identity);

// A script of any method, whole or with a fault. The reduction's spec tells whose it is.
Script RandomScript(Random& random, std::uint64_t identity, const KeptArrays& kept);

inline bool IsSegments(const Script& script) { return absl::EndsWith(script.method, "/ReduceSegments"); }
inline bool IsReflection(const Script& script) {
  return absl::EndsWith(script.method, "/ServerReflectionInfo");
}
inline bool IsReduce(const Script& script) { return absl::EndsWith(script.method, "/Reduce"); }
// Whether it is a header, chunks and a commit.
inline bool IsStream(const Script& script) {
  return IsReduce(script) || IsSegments(script) || absl::EndsWith(script.method, "/PutArray");
}
// Whether the client has to take messages before the call ends.
inline bool TakesMessages(const Script& script) { return IsSegments(script) || IsReflection(script); }

// Distinguishes the reductions of different scripts: the number is hidden in the spec.
inline std::uint64_t IdentityOf(const kernels::ReductionSpec& spec) {
  if (spec.algorithm == kernels::Algorithm::kAuto) return spec.ddof;
  return kernels::kAlgorithmCount - 1 - static_cast<std::uint64_t>(spec.algorithm);
}

// The part of a response's reduction that a script knows.
std::string WhatCounts(const std::string& response);

}  // namespace warpfold::server
