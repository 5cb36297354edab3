// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda_shim/scenario.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu/segment_job.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/registration.h"
#include "kernels/cuda/tuning.h"
#include "kernels/segments.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels::shim {
namespace {

constexpr std::uint64_t kElements = 6000;
constexpr std::uint64_t kBytes = kElements * sizeof(double);
constexpr std::size_t kSlotBytes = 192 << 10;
constexpr std::uint64_t kSegments = 60;
constexpr SegmentCut kLikeSegments = {.segment_count = kSegments, .length = kElements / kSegments};
// Their results fit a slot, and are too many for kernels to write to the host's memory.
constexpr SegmentCut kManySegments = {.segment_count = kElements / 3, .length = 3};
constexpr std::size_t kRowBytes = 3 * sizeof(std::uint64_t);
static_assert(kManySegments.segment_count * kRowBytes > kMaxMappedResultBytes);
static_assert(kManySegments.segment_count * kRowBytes <= kSlotBytes / kSegmentResultShare);

// Sums of these depend on the order.
std::span<const std::byte> Array() {
  static const auto* const numbers = [] {
    auto* const all = new std::vector<double>(kElements);
    double x = 1;
    for (double& number : *all) number = x = x > 1e9 ? x / 3e9 : -1.7 * x + 0.1;
    return all;
  }();
  return std::as_bytes(std::span(*numbers));
}

ReductionPlan PlanOf(const std::vector<std::string>& operators, ElementType type,
                     Algorithm algorithm = Algorithm::kAuto) {
  ReductionSpec spec;
  spec.operators = operators;
  spec.element_type = type;
  spec.algorithm = algorithm;
  return ReductionPlan::Create(spec).value();
}

const ReductionPlan& Plan() {
  static const auto* const plan = new ReductionPlan(PlanOf({"sum", "argmin"}, ElementType::kFloat64));
  return *plan;
}

// These operators have two plans over segments, and so two tables if lengths vary: the one in the middle has
// separate leaves.
const ReductionPlan& PlanOfTwoLeaves() {
  static const auto* const plan =
      new ReductionPlan(PlanOf({"sum", "max_subarray_sum", "argmin"}, ElementType::kInt32));
  return *plan;
}

const PartialState& OfTheHost() {
  static const auto* const state = new PartialState(ReduceOnHost(Plan(), 0, Array()));
  return *state;
}

void ExpectSameSegments(const SegmentsResult& result, const ReductionPlan& plan, const SegmentCut& cut) {
  std::vector<std::uint64_t> values(kSlotBytes / sizeof(std::uint64_t));
  cpu::SegmentJob job(cpu::BestInstructionSet(), values);
  const HostPiece all(Array().data(), cut.ElementCount() * plan.element_bytes());
  job.Plan(plan, cut, cpu::PieceCursor({&all, 1}, nullptr));
  for (std::size_t task = 0; task < job.tasks(); ++task) job.Run(task);
  const SegmentsResult expected = job.Collect();
  EXPECT_TRUE(std::ranges::equal(result.values, expected.values)) << "values of segments differ";
  EXPECT_TRUE(result.errors == expected.errors)
      << result.errors.size() << " errors of segments instead of " << expected.errors.size();
}

// Memory around places where one registered part ends and the next begins: the first of three, and the same
// in every run, so that each run makes the same calls.
std::byte* EndOfAPart() {
  static std::byte* const end = [] {
    void* const pages = mmap(nullptr, 4 * kRegistrationBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) std::abort();
    auto* const begin = static_cast<std::byte*>(pages) + kRegistrationBytes / 2;
    return begin + BytesOfRegistration(begin);
  }();
  return end;
}

}  // namespace

std::span<const Scenario::Step> Scenario::Steps() {
  static constexpr Step kSteps[] = {
      {"probe a handle", &Scenario::Probe},
      {"open the backend", &Scenario::Open},
      {"open memory for pieces", &Scenario::OpenPieces},
      {"reduce what is staged", &Scenario::ReduceOnEverySlot},
      {"reduce with a notice", &Scenario::Notify},
      {"reduce pieces", &Scenario::ReducePieces},
      {"reduce segments of pieces", &Scenario::ReduceSegmentsOfPieces},
      {"register memory", &Scenario::Register},
      {"reduce registered memory", &Scenario::ReduceRegistered},
      {"allocate memory", &Scenario::Allocate},
      {"store pieces", &Scenario::StorePieces},
      {"reduce what is kept of pieces", &Scenario::ReduceKept},
      {"store", &Scenario::Store},
      {"reduce what is kept", &Scenario::ReduceKept},
      {"reduce across GPUs", &Scenario::ReduceAcross},
      {"open a handle", &Scenario::OpenMemory},
      {"reduce another process' memory", &Scenario::ReduceOpened},
      {"reduce like segments", &Scenario::ReduceLikeSegments},
      {"reduce varying segments", &Scenario::ReduceVaryingSegments},
      {"reduce segments of what is kept", &Scenario::ReduceKeptSegments},
      {"register memory for results", &Scenario::RegisterResults},
      {"reduce segments to memory", &Scenario::ReduceSegmentsToMemory},
      {"reduce segments to another process' memory", &Scenario::ReduceSegmentsToOpened},
      {"write to another process' memory", &Scenario::WriteToOpened},
      {"reduce by the textbook", &Scenario::ReduceByTextbook},
      {"give memory back", &Scenario::GiveMemoryBack, Answer::kIgnored},
      {"reduce segments again", &Scenario::ReduceLikeSegments},
      {"reduce again", &Scenario::ReduceOnEverySlot},
      {"close", &Scenario::Close, Answer::kIgnored},
  };
  return kSteps;
}

Scenario::Scenario()
    : exported_(Shim::Get().Export(1, Array())),
      host_(EndOfAPart() - Array().size() / 2, Array().size()),
      pieces_(EndOfAPart() + kRegistrationBytes - kSlotBytes / 2, kSlotBytes),
      results_(EndOfAPart() + 2 * kRegistrationBytes - kManySegments.segment_count * kRowBytes / 2,
               kManySegments.segment_count * kRowBytes),
      lengths_(kSegments, kElements / kSegments) {
  std::ranges::copy(Array(), host_.begin());
  lengths_[3] += lengths_[4] + lengths_[5];
  lengths_[4] = lengths_[5] = 0;  // argmin has no result for these
}

absl::Status Scenario::Await(Slot& slot, const absl::Status& started) {
  if (!started.ok()) return started;
  const absl::StatusOr<SlotResult> result = slot.Wait();
  if (!result.ok()) return result.status();
  ExpectSame(*result->state, OfTheHost());
  return absl::OkStatus();
}

absl::Status Scenario::AwaitSegments(Slot& slot, const absl::Status& started, const SegmentCut& cut) {
  return AwaitSegmentsOf(Plan(), slot, started, cut);
}

absl::Status Scenario::AwaitSegmentsOf(const ReductionPlan& plan, Slot& slot, const absl::Status& started,
                                       const SegmentCut& cut) {
  if (!started.ok()) return started;
  const absl::StatusOr<SegmentsResult> result = slot.WaitSegments();
  if (!result.ok()) return result.status();
  ExpectSameSegments(*result, plan, cut);
  return absl::OkStatus();
}

absl::Status Scenario::Probe() {
  const Gpu gpus[] = {{.ordinal = 0, .device = 0}, {.ordinal = 1, .device = 1}};
  return ProbeProcessMemory(gpus, exported_);
}

absl::Status Scenario::Open() {
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeCudaBackend({}, {.slots = 1, .slot_bytes = kSlotBytes});
  if (!backend.ok()) return backend.status();
  backend_ = *std::move(backend);
  for (int i = 0; i < kGpus; ++i) {
    slot(i).NotifyBy([this, i] { ++notices_[static_cast<std::size_t>(i)]; });
  }
  return absl::OkStatus();
}

absl::Status Scenario::OpenPieces() { return backend_->OpenPieces(pieces_); }

absl::Status Scenario::ReduceOnEverySlot() {
  for (const auto& slot : backend_->slots()) {
    std::ranges::fill(slot->staging(), std::byte{0xff});
    std::ranges::copy(Array(), slot->staging().begin());
    if (absl::Status status = Await(*slot, slot->Start(Plan(), 0, kElements)); !status.ok()) return status;
    absl::Status status = AwaitSegments(*slot, slot->StartSegments(Plan(), kLikeSegments), kLikeSegments);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Scenario::Notify() {
  notices_[1] = 0;
  std::ranges::copy(Array(), slot(1).staging().begin());
  if (absl::Status status = slot(1).Start(Plan(), 0, kElements); !status.ok()) return status;
  slot(1).Notify();
  while (!slot(1).Finished()) continue;
  const absl::Status status = Await(slot(1), absl::OkStatus());
  if (status.ok()) {
    Shim::Get().DrainAll();  // the notice comes after the end, by itself
    EXPECT_EQ(notices_[1], 1);
  }
  return status;
}

// The array, with a part of it staged in the slot and the rest in the memory for pieces.
std::array<HostPiece, 2> Scenario::PiecesFor(Slot& slot) {
  std::ranges::copy(Array().first(1001), slot.staging().begin());
  std::ranges::copy(Array().subspan(1001), pieces_.begin());
  return {slot.staging().first(1001), std::span<const std::byte>(pieces_).first(kBytes - 1001)};
}

absl::Status Scenario::ReducePieces() {
  return Await(slot(0), slot(0).StartPieces(Plan(), 0, kElements, PiecesFor(slot(0))));
}

absl::Status Scenario::ReduceSegmentsOfPieces() {
  return AwaitSegments(slot(0), slot(0).StartSegmentPieces(Plan(), kLikeSegments, PiecesFor(slot(0))),
                       kLikeSegments);
}

absl::Status Scenario::Register() {
  absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Register(host_);
  if (memory.ok()) registered_ = *std::move(memory);
  return memory.status();
}

absl::Status Scenario::ReduceRegistered() {
  if (registered_ == nullptr) return Lacking();
  return Await(slot(1), slot(1).StartFrom(Plan(), 0, kElements, *registered_, 0));
}

absl::Status Scenario::Allocate() {
  for (int device = 0; device < kGpus; ++device) {
    absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Allocate(device, kBytes + 8);
    if (!memory.ok()) return memory.status();
    kept_[static_cast<std::size_t>(device)] = *std::move(memory);
  }
  return absl::OkStatus();
}

absl::Status Scenario::StorePieces() {
  for (int i = 0; i < kGpus; ++i) {
    if (kept_[static_cast<std::size_t>(i)] == nullptr) return Lacking();
    const Memory& memory = *kept_[static_cast<std::size_t>(i)];
    const absl::Status status = slot(i).StartStorePieces(memory, i == 0 ? 8 : 0, PiecesFor(slot(i)));
    if (!status.ok()) return status;
    if (absl::StatusOr<SlotResult> stored = slot(i).Wait(); !stored.ok()) return stored.status();
  }
  return absl::OkStatus();
}

// On GPU 0 the array begins at 8, so that it is not aligned for kernels.
absl::Status Scenario::Store() {
  for (int i = 0; i < kGpus; ++i) {
    if (kept_[static_cast<std::size_t>(i)] == nullptr) return Lacking();
    std::ranges::copy(Array(), slot(i).staging().begin());
    const Memory& memory = *kept_[static_cast<std::size_t>(i)];
    if (absl::Status status = slot(i).StartStore(memory, i == 0 ? 8 : 0, kBytes); !status.ok()) return status;
    if (absl::StatusOr<SlotResult> stored = slot(i).Wait(); !stored.ok()) return stored.status();
  }
  return absl::OkStatus();
}

absl::Status Scenario::ReduceKept() {
  for (int i = 0; i < kGpus; ++i) {
    if (kept_[static_cast<std::size_t>(i)] == nullptr) return Lacking();
    const Memory& memory = *kept_[static_cast<std::size_t>(i)];
    const absl::Status status =
        Await(slot(i), slot(i).StartFrom(Plan(), 0, kElements, memory, i == 0 ? 8 : 0));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Scenario::ReduceAcross() {
  if (kept_[0] == nullptr || kept_[1] == nullptr) return Lacking();
  constexpr std::uint64_t kBorder = 2000;
  const MemoryPart parts[] = {
      {.memory = kept_[0].get(), .byte_offset = 8, .byte_count = kBorder},
      {.memory = kept_[1].get(), .byte_offset = kBorder, .byte_count = kBytes - kBorder}};
  return Await(slot(0), slot(0).StartAcross(Plan(), 0, kElements, parts));
}

// Probe does not know whose it is.
absl::Status Scenario::OpenMemory() {
  ProcessMemory named = exported_;
  std::ranges::copy(std::string_view("0000:01:00.0"), named.pci_bus_id.begin());
  absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(named);
  if (memory.ok()) opened_ = *std::move(memory);
  return memory.status();
}

absl::Status Scenario::ReduceOpened() {
  if (opened_ == nullptr) return Lacking();
  EXPECT_EQ(opened_->device(), 1);
  return Await(slot(1), slot(1).StartFrom(Plan(), 0, kElements, *opened_, 0));
}

absl::Status Scenario::ReduceLikeSegments() {
  std::ranges::copy(Array(), slot(0).staging().begin());
  return AwaitSegments(slot(0), slot(0).StartSegments(Plan(), kManySegments), kManySegments);
}

absl::Status Scenario::ReduceVaryingSegments() {
  const SegmentCut cut = {.segment_count = kSegments, .length = 0, .lengths = lengths_};
  std::ranges::copy(Array(), slot(0).staging().begin());
  const ReductionPlan& plan = PlanOfTwoLeaves();
  return AwaitSegmentsOf(plan, slot(0), slot(0).StartSegments(plan, cut), cut);
}

absl::Status Scenario::ReduceKeptSegments() {
  if (kept_[0] == nullptr) return Lacking();
  return AwaitSegments(slot(0), slot(0).StartSegmentsFrom(Plan(), kLikeSegments, *kept_[0], 8),
                       kLikeSegments);
}

absl::Status Scenario::RegisterResults() {
  absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Register(results_, /*is_written=*/true);
  if (memory.ok()) registered_results_ = *std::move(memory);
  return memory.status();
}

// Also if a part of the memory could not be registered.
absl::Status Scenario::ReduceSegmentsToMemory() {
  if (registered_results_ == nullptr) return Lacking();
  return ReduceSegmentsTo(results_.data(), std::nullopt);
}

// It is the other GPU's.
absl::Status Scenario::ReduceSegmentsToOpened() {
  if (opened_ == nullptr) return Lacking();
  return ReduceSegmentsTo(const_cast<std::byte*>(opened_->data()), opened_->device());
}

absl::Status Scenario::WriteToOpened() {
  if (opened_ == nullptr) return Lacking();
  const std::span<const std::byte> bytes = Array().subspan(8, 24);
  if (absl::Status status = opened_->Write(16, bytes); !status.ok()) return status;
  EXPECT_TRUE(std::ranges::equal(bytes, std::span(opened_->data() + 16, bytes.size())));
  return absl::OkStatus();
}

absl::Status Scenario::ReduceSegmentsTo(std::byte* memory, std::optional<int> device) {
  std::fill_n(memory, results_.size(), std::byte{0});
  std::ranges::copy(Array(), slot(0).staging().begin());
  SegmentCut cut = kManySegments;
  auto* const values = reinterpret_cast<std::uint64_t*>(memory);
  cut.results = {.values = values, .stride = cut.segment_count, .device = device};
  if (absl::Status status = slot(0).StartSegments(Plan(), cut); !status.ok()) return status;
  absl::StatusOr<SegmentsResult> result = slot(0).WaitSegments();
  if (!result.ok()) return result.status();
  EXPECT_TRUE(result->values.empty());
  result->values = {values, results_.size() / sizeof(std::uint64_t)};
  ExpectSameSegments(*result, Plan(), cut);
  return absl::OkStatus();
}

// With one operator over integers, whose sum is the same in any order.
absl::Status Scenario::ReduceByTextbook() {
  const PartialState expected = ReduceOnHost(PlanOf({"sum"}, ElementType::kInt32), 0, Array());
  const ReductionPlan plan = PlanOf({"sum"}, ElementType::kInt32, Algorithm::kCooperativeGrid);
  std::ranges::copy(Array(), slot(0).staging().begin());
  if (absl::Status status = slot(0).Start(plan, 0, 2 * kElements); !status.ok()) return status;
  const absl::StatusOr<SlotResult> result = slot(0).Wait();
  if (!result.ok()) return result.status();
  EXPECT_EQ(Describe(result->state->Finish(0)), Describe(expected.Finish(0)));
  return absl::OkStatus();
}

absl::Status Scenario::GiveMemoryBack() {
  registered_.reset();
  registered_results_.reset();
  kept_ = {};
  opened_.reset();
  return absl::OkStatus();
}

absl::Status Scenario::Close() {
  backend_.reset();
  return absl::OkStatus();
}

}  // namespace warpfold::kernels::shim
