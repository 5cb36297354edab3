// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a simulated world begins: which shards, slots, clients and arrays there are, and what parties have had.
#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "server/core/admission/allow_list.h"
#include "server/core/admission/party.h"
#include "tests/server/simulation/kept_arrays.h"
#include "tests/server/simulation/simulation.h"

namespace warpfold::server {
namespace {

constexpr CallLimits kCallLimits = {
    .idle = absl::Seconds(10), .pace_bytes = 6000, .duration = absl::Seconds(60)};
constexpr std::size_t kLeafBytes = 4096;

}  // namespace

// A slot that tells the world who uses it.
class World::WatchedSlot : public kernels::Slot {
 public:
  WatchedSlot(World& world, kernels::Slot& slot) : world_(world), slot_(slot) {}

  int device() const override { return slot_.device(); }
  bool EndsInStart() const override { return slot_.EndsInStart(); }
  std::span<std::byte> staging() override { return slot_.staging(); }
  void WorkFor(std::uint64_t group) override { slot_.WorkFor(group); }
  void NotifyBy(std::function<void()> on_finished) override { slot_.NotifyBy(std::move(on_finished)); }
  void Notify() override { slot_.Notify(); }
  std::uint64_t Capacity(const kernels::ReductionPlan& reduction) const override {
    return slot_.Capacity(reduction);
  }
  absl::Status Start(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    if (reduction.spec().operators.size() == 1) {  // clients ask for two
      return world_.StartTrial([&] { return slot_.Start(reduction, first_element, element_count); });
    }
    return Watch(reduction, [&] { return slot_.Start(reduction, first_element, element_count); });
  }
  bool Reads(kernels::HostPiece bytes) const override { return slot_.Reads(bytes); }
  bool KeepsPieces() const override { return slot_.KeepsPieces(); }
  absl::Status StartPieces(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const kernels::HostPiece> pieces) override {
    return Watch(reduction,
                 [&] { return slot_.StartPieces(reduction, first_element, element_count, pieces); });
  }
  std::uint64_t CapacityFrom(const kernels::ReductionPlan& reduction, const kernels::Memory& memory,
                             std::uint64_t byte_offset) const override {
    return slot_.CapacityFrom(reduction, memory, byte_offset);
  }
  absl::Status StartFrom(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                         std::uint64_t element_count, const kernels::Memory& memory,
                         std::uint64_t byte_offset) override {
    return Watch(reduction, [&] {
      return slot_.StartFrom(reduction, first_element, element_count, memory, byte_offset);
    });
  }
  absl::Status StartAcross(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const kernels::MemoryPart> parts) override {
    return Watch(reduction,
                 [&] { return slot_.StartAcross(reduction, first_element, element_count, parts); });
  }
  absl::Status StartStore(const kernels::Memory& memory, std::uint64_t byte_offset,
                          std::uint64_t byte_count) override {
    return world_.StartStore([&] { return slot_.StartStore(memory, byte_offset, byte_count); });
  }
  absl::Status StartStorePieces(const kernels::Memory& memory, std::uint64_t byte_offset,
                                std::span<const kernels::HostPiece> pieces) override {
    return world_.StartStore([&] { return slot_.StartStorePieces(memory, byte_offset, pieces); });
  }
  bool Finished() override { return slot_.Finished(); }
  absl::StatusOr<kernels::SlotResult> Wait() override { return slot_.Wait(); }
  std::uint64_t SegmentCapacity(const kernels::ReductionPlan& reduction) const override {
    return slot_.SegmentCapacity(reduction);
  }
  std::uint64_t SegmentCapacityFrom(const kernels::ReductionPlan& reduction, const kernels::Memory& memory,
                                    std::uint64_t byte_offset) const override {
    return slot_.SegmentCapacityFrom(reduction, memory, byte_offset);
  }
  absl::Status StartSegments(const kernels::ReductionPlan& reduction,
                             const kernels::SegmentCut& cut) override {
    return Watch(reduction, [&] { return slot_.StartSegments(reduction, cut); });
  }
  absl::Status StartSegmentPieces(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut,
                                  std::span<const kernels::HostPiece> pieces) override {
    return Watch(reduction, [&] { return slot_.StartSegmentPieces(reduction, cut, pieces); });
  }
  absl::Status StartSegmentsFrom(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut,
                                 const kernels::Memory& memory, std::uint64_t byte_offset) override {
    return Watch(reduction, [&] { return slot_.StartSegmentsFrom(reduction, cut, memory, byte_offset); });
  }
  absl::StatusOr<kernels::SegmentsResult> WaitSegments() override { return slot_.WaitSegments(); }

 private:
  absl::Status Watch(const kernels::ReductionPlan& reduction, absl::FunctionRef<absl::Status()> start) {
    const std::uint64_t identity = IdentityOf(reduction.spec());
    if (!world_.OnStart(identity)) return DeviceLost();
    absl::Status status = start();
    if (status.ok()) world_.OnStarted(identity);
    return status;
  }

  World& world_;
  kernels::Slot& slot_;
};

World::World(std::uint64_t seed)
    : random_(seed),
      devices_(OneIn(random_, 3) ? 2 : 1),
      backend_(static_cast<int>(1 + Below(random_, 4)) * devices_, kLeafBytes * (2 + Below(random_, 3)),
               devices_),
      places_(static_cast<int>(2 + Below(random_, OneIn(random_, 2) ? 8 : 40))),
      service_(backend_,
               Limits{.max_stream_bytes = 1 << 20, .max_concurrent_reductions = places_, .call = kCallLimits},
               [this] { return ledger_.now; }),
      finishes_at_once_(std::size_t{2} * Below(random_, 3)),
      fails_(OneIn(random_, 4) ? 1 + Below(random_, 20) : 0),
      is_slow_(OneIn(random_, 8)),
      may_hang_(OneIn(random_, 8)) {
  service_.cpu_crossover_bytes = OneIn(random_, 3) ? Below(random_, 5) * kLeafBytes : 0;
  if (OneIn(random_, 2)) static_cast<void>(backend_.OpenPieces(heap_.memory()));
  backend_.behaviour.keeps_pieces = OneIn(random_, 2);
  service_.observer = &counter_;
  service_.reflection = true;
  ledger_.has_turns_at_once = OneIn(random_, 2);
  MakeShards();
  if (OneIn(random_, 2)) MakeOneFarAhead();
  FillPlaces();
  MakeClients();
}

World::~World() = default;

// One party has had so much that it is delayed for the others, which all shards know to send much.
void World::MakeOneFarAhead() {
  const auto party = [](std::size_t host) { return PartyOf(kAnonymous, PeerOf(host)); };
  const std::size_t ahead = Below(random_, kHosts);
  service_.tags.Charge(service_.tags.Join(party(ahead)), PartyTags::kMaxBehind);
  service_.tags.Leave(party(ahead));
  for (SimulatedShard& shard : shards_) {
    for (std::size_t host = 0; host < kHosts; ++host) {
      silent_.emplace_back(shard.shard->turns(), party(host), [] {});
    }
    for (std::size_t host = 0; host < kHosts; ++host) {
      if (host != ahead)
        silent_[silent_.size() - kHosts + host].Ask(
            {.costs_bytes = 0, .bytes = std::uint64_t{4} << 20, .kind = Turns::Kind::kBulk});
    }
  }
}

void World::MakeShards() {
  backend_.behaviour.SetBlocked(true);
  backend_.behaviour.ends_in_start = OneIn(random_, 2);
  backend_.behaviour.writes_results = OneIn(random_, 2);
  const auto devices = static_cast<std::size_t>(devices_);
  const std::size_t count = std::min<std::size_t>(backend_.slots().size() / devices, 1 + Below(random_, 2));
  std::vector<std::vector<kernels::Slot*>> shares(count);
  for (const auto& slot : backend_.slots()) {
    const std::size_t number = slots_.size() / devices;  // among those of its device
    slots_.push_back(std::make_unique<WatchedSlot>(*this, *slot));
    shares[number % count].push_back(slots_.back().get());
  }
  shards_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    shards_[i].shard = std::make_unique<Shard>(service_, shares[i]);
    for (kernels::Slot* slot : shares[i]) slot->NotifyBy([this, i] { shards_[i].notified = true; });
  }
}

// As many clients as there are places would be slow to simulate: others take all places but a few.
void World::FillPlaces() {
  if (places_ < 10) return;
  for (int i = static_cast<int>(Below(random_, 8)); i < places_; ++i) {
    const std::string peer = RandomPeer(random_);
    const auto kind = OneIn(random_, 2) ? Admission::Kind::kReduction : Admission::Kind::kArray;
    const bool has_place = ledger_.HasPlace(peer, kind, places_);
    auto ticket = service_.admission.Enter(kind, {.array = "", .party = peer.substr(0, peer.rfind(':'))});
    ledger_.Expect(ticket.ok() == has_place, "a place is given against the rule");
    if (!ticket.ok()) continue;
    ++ledger_.Count(peer, kind);
    others_.push_back({.peer = peer, .kind = kind, .ticket = *std::move(ticket)});
  }
}

void World::MakeClients() {
  const std::size_t count = 1 + Below(random_, kMaxClients);
  const KeptArrays kept = MakeArrays();
  for (std::size_t i = 0; i < count; ++i) {
    Shard& shard = *shards_[Below(random_, shards_.size())].shard;
    clients_.emplace_back(ledger_, shard, heap_, RandomScript(random_, i, kept));
  }
}

// The room is often too small for all that clients put.
KeptArrays World::MakeArrays() {
  const std::uint64_t room = (OneIn(random_, 3) ? 64 : 192) << 10;
  service_.residents.Open(backend_.AllocateOfEach(room), {.owner_bytes = room * 2,
                                                          .part_bytes = 8 << 10,
                                                          .default_time_to_live = absl::Hours(10'000),
                                                          .max_time_to_live = absl::Hours(10'000)});
  const auto put = [this](kernels::ElementType type, std::span<const std::byte> data) {
    const std::string token = PutArray(service_, {type, {}}, data);
    ledger_.arrays.Add(
        token, {.owner = "an owner", .bytes = {reinterpret_cast<const char*>(data.data()), data.size()}});
    return token;
  };
  KeptArrays kept = {.ints = KeepArray(random_, backend_, service_.memories, ArrayData(false)),
                     .floats = KeepArray(random_, backend_, service_.memories, ArrayData(true)),
                     .resident_ints = put(kernels::ElementType::kInt32, ArrayData(false)),
                     .resident_floats = put(kernels::ElementType::kFloat32, ArrayData(true)),
                     .results = {},
                     .results_memory = {}};
  // The same memory for all worlds: each script fills what it uses.
  static auto* const results = new std::array<std::vector<std::uint64_t>, kMaxClients>;
  for (std::size_t i = 0; i < kMaxClients; ++i) {
    std::vector<std::uint64_t>& of_client = (*results)[i];
    of_client.resize(8'192);
    auto memory =
        std::make_shared<const FakeMemory>(std::as_bytes(std::span(of_client)), /*host_can_read=*/true);
    kept.results_memory[i] = of_client;
    kept.results[i] = service_.memories.Add(
        std::make_shared<const NamedMemory>(std::move(memory), std::as_writable_bytes(std::span(of_client))));
  }
  return kept;
}

}  // namespace warpfold::server
