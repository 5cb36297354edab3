// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/device_under_test.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/host_reduce.h"
#include "kernels/cpu/segment_job.h"
#include "kernels/devices.h"

namespace warpfold::kernels {
namespace {

[[noreturn]] void Refuse(const std::string& reason) {
  std::fprintf(stderr, "WARPFOLD_TEST_DEVICE: %s\n", reason.c_str());
  std::exit(1);
}

// Checks a status of the device under test, without which nothing can be tested.
void Require(const absl::Status& status) {
  if (!status.ok()) Refuse(status.ToString());
}

std::uint64_t PieceElements(const ReductionPlan& reduction, std::uint64_t piece_leaves,
                            std::uint64_t capacity) {
  return std::min(piece_leaves, capacity / reduction.leaf_elements()) * reduction.leaf_elements();
}

// The host is promised no alignment: give it the worst.
PartialState ReduceUnaligned(const cpu::InstructionSet& isa, const ReductionPlan& reduction,
                             std::uint64_t first, std::span<const std::byte> data) {
  std::vector<std::byte> shifted(data.size() + 1);
  if (!data.empty()) std::memcpy(shifted.data() + 1, data.data(), data.size());
  return cpu::ReduceRange(isa, reduction, first, std::span(shifted).subspan(1));
}

}  // namespace

DeviceUnderTest& DeviceUnderTest::Get() {
  static auto* const device = [] {
    const char* const name = std::getenv("WARPFOLD_TEST_DEVICE");
    return new DeviceUnderTest(name != nullptr ? name : "cpu:2");
  }();
  return *device;
}

DeviceUnderTest::DeviceUnderTest(const std::string& name) {
  // All of a range goes to the threads: work on the calling thread is tested as host:ISA.
  BackendOptions options = {.slots = 3, .slot_bytes = 768 << 10, .inline_time = absl::ZeroDuration()};
  if (absl::StartsWith(name, "cpu:")) {
    if (!absl::SimpleAtoi(name.substr(4), &options.threads)) Refuse("cpu:N needs a number of threads");
    absl::StatusOr<std::unique_ptr<Backend>> backend = cpu::MakeCpuBackend(options);
    Require(backend.status());
    backend_ = *std::move(backend);
    return;
  }
  if (absl::StartsWith(name, "cuda:") || absl::StartsWith(name, "simt:")) {
    std::string note;
    absl::StatusOr<std::unique_ptr<Backend>> backend = MakeBackend(name, options, &note);
    Require(backend.status());
    backend_ = *std::move(backend);
    return;
  }
  for (const cpu::InstructionSet& isa : cpu::InstructionSets()) {
    if (name == absl::StrCat("host:", isa.name) && isa.runs_here) instruction_set_ = &isa;
  }
  if (instruction_set_ == nullptr) Refuse(absl::StrCat("this machine has no ", name));
}

PartialState DeviceUnderTest::Reduce(const ReductionPlan& reduction, std::uint64_t first,
                                     std::span<const std::byte> data, std::uint64_t piece_leaves) {
  PartialState whole(reduction, first);
  if (backend_ == nullptr) {
    while (!data.empty()) {
      const std::uint64_t elements = PieceElements(reduction, piece_leaves, reduction.leaf_elements() << 20);
      const auto piece = data.first(std::min(data.size(), elements * reduction.element_bytes()));
      Require(whole.Append(ReduceUnaligned(*instruction_set_, reduction, first, piece)));
      first += elements;
      data = data.subspan(piece.size());
    }
    return whole;
  }

  std::deque<Slot*> idle;
  std::deque<Slot*> busy;
  for (const auto& slot : backend_->slots()) idle.push_back(slot.get());
  while (!data.empty() || !busy.empty()) {
    if (!data.empty() && !idle.empty()) {
      Slot* const slot = idle.front();
      idle.pop_front();
      const std::uint64_t elements = PieceElements(reduction, piece_leaves, slot->Capacity(reduction));
      const auto piece = data.first(std::min(data.size(), elements * reduction.element_bytes()));
      std::memcpy(slot->staging().data(), piece.data(), piece.size());
      Require(slot->Start(reduction, first, piece.size() / reduction.element_bytes()));
      busy.push_back(slot);
      first += elements;
      data = data.subspan(piece.size());
      continue;
    }
    Slot* const slot = busy.front();
    busy.pop_front();
    const absl::StatusOr<SlotResult> result = slot->Wait();
    Require(result.status());
    Require(whole.Append(*result->state));
    idle.push_back(slot);
  }
  return whole;
}

namespace {

// Segments [begin, end) of a cut, whose elements are `data`.
struct Batch {
  SegmentCut cut;
  std::span<const std::byte> data;
};

// The next segments from `begin` on that one Start takes.
Batch NextBatch(const ReductionPlan& reduction, const SegmentCut& cut, std::uint64_t begin,
                std::span<const std::byte> data, std::uint64_t most_segments, std::size_t most_bytes) {
  Batch batch{.cut = {.length = cut.length}, .data = data.first(0)};
  while (begin + batch.cut.segment_count < cut.segment_count && batch.cut.segment_count < most_segments) {
    const std::size_t bytes =
        cut.LengthOf(begin + batch.cut.segment_count) * reduction.element_bytes() + batch.data.size();
    if (bytes > most_bytes) break;
    batch.data = data.first(bytes);
    ++batch.cut.segment_count;
  }
  if (!cut.lengths.empty()) batch.cut.lengths = cut.lengths.subspan(begin, batch.cut.segment_count);
  return batch;
}

void Append(const SegmentsResult& result, const ReductionPlan& reduction, DeviceUnderTest::Segments& all) {
  const std::size_t first = all.rows.size();
  const std::size_t columns = SegmentLayout(reduction).columns().size();
  all.rows.resize(first + result.segment_count, std::vector<std::uint64_t>(columns));
  all.errors.resize(first + result.segment_count);
  for (std::size_t column = 0; column < columns; ++column) {
    const auto values = result.Column(column);
    for (std::size_t i = 0; i < values.size(); ++i) all.rows[first + i][column] = values[i];
  }
  for (const SegmentError& error : result.errors) all.errors[first + error.segment].push_back(error);
}

}  // namespace

DeviceUnderTest::Segments DeviceUnderTest::ReduceSegments(const ReductionPlan& reduction,
                                                          const SegmentCut& cut,
                                                          std::span<const std::byte> data) {
  Segments all;
  Slot* const slot = backend_ == nullptr ? nullptr : backend_->slots()[0].get();
  std::vector<std::uint64_t> host_values(8 << 10);
  std::optional<cpu::SegmentJob> job;
  if (slot == nullptr) job.emplace(*instruction_set_, host_values);
  while (all.rows.size() < cut.segment_count) {
    const Batch batch =
        NextBatch(reduction, cut, all.rows.size(), data,
                  slot != nullptr ? slot->SegmentCapacity(reduction) : job->Capacity(reduction),
                  slot != nullptr ? slot->staging().size() : data.size());
    if (batch.cut.segment_count == 0) Refuse("a segment is longer than a slot");
    if (slot != nullptr) {
      std::copy(batch.data.begin(), batch.data.end(), slot->staging().begin());
      Require(slot->StartSegments(reduction, batch.cut));
      const absl::StatusOr<SegmentsResult> result = slot->WaitSegments();
      Require(result.status());
      Append(*result, reduction, all);
    } else {
      std::vector<std::byte> shifted(batch.data.size() + 1);  // the worst alignment
      std::copy(batch.data.begin(), batch.data.end(), shifted.begin() + 1);
      const HostPiece bytes = std::span(shifted).subspan(1);
      job->Plan(reduction, batch.cut, cpu::PieceCursor({&bytes, 1}, nullptr));
      for (std::size_t task = 0; task < job->tasks(); ++task) job->Run(task);
      Append(job->Collect(), reduction, all);
    }
    data = data.subspan(batch.data.size());
  }
  return all;
}

namespace {
bool ScaleIs(const char* name) {
  const char* const scale = std::getenv("WARPFOLD_TEST_SCALE");
  return scale != nullptr && std::strcmp(scale, name) == 0;
}
}  // namespace

bool SmallScale() { return ScaleIs("small") || TinyScale(); }
bool TinyScale() { return ScaleIs("tiny"); }

}  // namespace warpfold::kernels
