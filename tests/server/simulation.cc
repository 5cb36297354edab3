// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/core/allow_list.h"
#include "server/core/party.h"
#include "tests/server/kept_arrays.h"

namespace warpfold::server {
namespace {

constexpr CallLimits kCallLimits = {
    .idle = absl::Seconds(10), .pace_bytes = 6000, .duration = absl::Seconds(60)};
constexpr std::size_t kLeafBytes = 4096;

absl::Status Draining() {
  return kernels::Error(absl::StatusCode::kUnavailable, "DRAINING", "the server is shutting down");
}

// In place of a client's identity: the shard itself tries the device, or an array is put, nobody knows whose.
constexpr std::uint64_t kTrial = ~std::uint64_t{0};
constexpr std::uint64_t kStore = kTrial - 1;

bool Happens(Random& random, std::size_t one_in) { return one_in != 0 && OneIn(random, one_in); }

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
    return slot_.StartSegmentsFrom(reduction, cut, memory, byte_offset);
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
  service_.observer = &counter_;
  service_.reflection = true;
  ledger_.has_turns_at_once = OneIn(random_, 2);
  MakeShards();
  if (OneIn(random_, 2)) MakeOneFarAhead();
  FillPlaces();
  MakeClients();
}

World::~World() = default;

// One party has had so much that it is held for the others, of which all shards know that they send much.
void World::MakeOneFarAhead() {
  const auto party = [](std::size_t host) { return PartyOf(kAnonymous, PeerOf(host)); };
  const std::size_t ahead = Below(random_, kHosts);
  service_.tags.Charge(service_.tags.Join(party(ahead)), PartyTags::kMostBehind);
  service_.tags.Leave(party(ahead));
  for (SimulatedShard& shard : shards_) {
    for (std::size_t host = 0; host < kHosts; ++host) {
      silent_.emplace_back(shard.shard->turns(), party(host), [] {});
    }
    for (std::size_t host = 0; host < kHosts; ++host) {
      if (host != ahead) silent_[silent_.size() - kHosts + host].Ask(0, std::uint64_t{4} << 20);
    }
  }
}

void World::MakeShards() {
  backend_.behaviour.SetBlocked(true);
  backend_.behaviour.ends_in_start = OneIn(random_, 2);
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

// As many clients as there are places would be slow to simulate: others take all but a few.
void World::FillPlaces() {
  if (places_ < 10) return;
  for (int i = static_cast<int>(Below(random_, 8)); i < places_; ++i) {
    const std::string peer = RandomPeer(random_);
    const auto kind = OneIn(random_, 2) ? Admission::Kind::kReduction : Admission::Kind::kArray;
    const bool has_place = ledger_.HasPlace(peer, kind, places_);
    auto ticket = service_.admission.Enter(kind, {.array = "", .peer = peer.substr(0, peer.rfind(':'))});
    ledger_.Expect(ticket.ok() == has_place, "a place is given against the rule");
    if (!ticket.ok()) continue;
    ++ledger_.Count(peer, kind);
    others_.push_back({.peer = peer, .kind = kind, .ticket = *std::move(ticket)});
  }
}

void World::LeaveAPlace() {
  if (others_.empty()) return;
  --ledger_.Count(others_.back().peer, others_.back().kind);
  others_.pop_back();
}

void World::MakeClients() {
  const std::size_t count = 1 + Below(random_, 8);
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
  return {.ints = KeepArray(random_, backend_, service_.memories, ArrayData(false)),
          .floats = KeepArray(random_, backend_, service_.memories, ArrayData(true)),
          .resident_ints = put(kernels::ElementType::kInt32, ArrayData(false)),
          .resident_floats = put(kernels::ElementType::kFloat32, ArrayData(true))};
}

bool World::OnStart(std::uint64_t identity) {
  const bool fails = device_lost_ || Happens(random_, fails_ * 4);
  clients_[identity].OnOwnStart(fails);
  return !fails;
}

absl::Status World::StartTrial(const std::function<absl::Status()>& start) {
  ledger_.Expect(working_.size() < slots_.size(), "a trial of a device that is in use");
  if (device_lost_ || Happens(random_, fails_ * 4)) return DeviceLost();
  absl::Status status = start();
  if (status.ok()) working_.push_back(kTrial);
  return status;
}

absl::Status World::StartStore(const std::function<absl::Status()>& start) {
  if (device_lost_ || Happens(random_, fails_ * 4)) {
    ledger_.arrays.store_failed = true;
    return DeviceLost();
  }
  absl::Status status = start();
  if (!status.ok()) return status;
  working_.push_back(kStore);
  if (!device_hangs_ && Happens(random_, finishes_at_once_)) FinishSlot(working_.size() - 1);
  return status;
}

void World::OnStarted(std::uint64_t identity) {
  working_.push_back(identity);
  Shard* const shard = &clients_[identity].shard();
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (i == identity || &clients_[i].shard() != shard) continue;
    const std::string party = clients_[i].party();
    const bool is_mate = clients_[identity].party() == party;
    // While its party has a slot, parties with fewer come first.
    if (!is_mate && shard->slots().slots_of(party) > 0) continue;
    const auto party_size = std::count_if(clients_.begin(), clients_.end(), [&](const SimulatedClient& c) {
      return &c.shard() == shard && c.party() == party;
    });
    clients_[i].OnStartOfOther(identity, is_mate, static_cast<int>(party_size));
  }
  if (!device_hangs_ && Happens(random_, finishes_at_once_)) FinishSlot(working_.size() - 1);
}

void World::FinishSlot(std::size_t n) {
  const bool fails = device_lost_ || Happens(random_, fails_);
  if (fails && working_[n] == kStore) ledger_.arrays.store_failed = true;
  if (fails && working_[n] < kStore) clients_[working_[n]].OnOwnSlotFailed();
  working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(n));
  backend_.behaviour.Finish(n, fails ? DeviceLost() : absl::OkStatus());
}

void World::FinishSlots() {
  while (!working_.empty() && !device_hangs_) FinishSlot(Below(random_, working_.size()));
}

void World::Notify(SimulatedShard& shard) {
  shard.notified = false;
  for (SimulatedClient& client : clients_) {
    if (&client.shard() == shard.shard.get()) client.OnLook();
  }
  shard.shard->OnDeviceFinished();
  shard.shard->BeforeWaiting();
  for (const SimulatedClient& client : clients_) {
    if (&client.shard() == shard.shard.get()) client.CheckDevice();
  }
}

void World::TakeTurns(SimulatedShard& shard) {
  if (!shard.shard->turns().has_waiting()) return;
  if (const std::optional<absl::Time> held = shard.shard->turns().held_until(); held.has_value()) {
    MomentPasses(std::max(*held - ledger_.now, absl::ZeroDuration()));
  }
  shard.shard->ServeTurns();
  shard.shard->BeforeWaiting();
}

void World::MomentPasses(absl::Duration time) {
  ledger_.now += time;
  for (SimulatedClient& client : clients_) client.TimePasses(time);
}

// Before a shard's thread waits for long, nobody waits for a turn.
void World::TimePasses(absl::Duration time) {
  for (SimulatedShard& shard : shards_) {
    while (shard.shard->turns().has_waiting()) TakeTurns(shard);
  }
  MomentPasses(time);
  for (SimulatedClient& client : clients_) {
    client.OnTick();
    client.OnLook();
  }
  for (SimulatedShard& shard : shards_) {
    shard.shard->OnTick();
    shard.shard->BeforeWaiting();
  }
  for (const SimulatedClient& client : clients_) {
    client.CheckTime();
    client.CheckDevice();
  }
  WatchTheDevice();
}

// As RpcServer does.
void World::WatchTheDevice() {
  const absl::Status fault = service_.device.fault();
  if (fault.ok() || std::exchange(ledger_.device_lost, true)) return;
  service_.admission.Close(fault);
  for (std::string* reason : {&ledger_.closed_to_reductions, &ledger_.closed_to_merges}) {
    if (reason->empty()) *reason = "DEVICE_LOST";
  }
  for (SimulatedShard& shard : shards_) shard.shard->StopAll(fault);
  for (const SimulatedClient& client : clients_) {
    const bool stops = client.begun() && IsWork(client.script().kind);
    ledger_.Expect(!stops || client.answered(), "not answered when the device was lost");
  }
}

void World::EventOf(std::size_t which) {
  SimulatedClient& client = clients_[which];
  if (!client.begun()) return client.Begin();
  if (client.CanReportBreak() && OneIn(random_, 2)) return client.ReportBreak();
  if (client.CanConfirm() && OneIn(random_, 2)) return client.Confirm();
  if (client.CanSay()) return client.Say(random_);
  if (client.CanTakeAnswer() && OneIn(random_, 2)) return client.TakeAnswer();
  if (client.CanForget()) return client.Forget();
  if (client.script().leaves && OneIn(random_, 4)) client.Break();
}

void World::Drain() {
  switch (drained_++) {
    case 0:
      service_.admission.CloseToReductions(Draining());
      if (!ledger_.device_lost) ledger_.closed_to_reductions = "DRAINING";
      break;
    case 1:
      service_.admission.Close(Draining());
      if (!ledger_.device_lost) ledger_.closed_to_merges = "DRAINING";
      break;
    case 2:
      ledger_.stopped = true;
      for (SimulatedShard& shard : shards_) shard.shard->StopAll(Draining());
      for (const SimulatedClient& client : clients_) {
        const bool stops = client.begun() && IsWork(client.script().kind);
        ledger_.Expect(!stops || client.answered(), "not answered when all were stopped");
      }
      break;
    default:
      break;
  }
}

void World::EventOfTheService() {
  switch (Below(random_, 14)) {
    case 0:
      return Drain();
    case 1:
      if (fails_ != 0) device_lost_ = true;
      return;
    case 2:
      return LeaveAPlace();
    case 3:
      device_hangs_ = may_hang_;
      return;
    default:
      service_.serving = !service_.serving;
      for (SimulatedShard& shard : shards_) shard.shard->OnHealthChanged();
  }
}

void World::RandomEvent() {
  const std::size_t event = Below(random_, 64);
  if (event < 36) {
    EventOf(Below(random_, clients_.size()));
  } else if (event < 50) {
    if (!working_.empty() && !device_hangs_) FinishSlot(Below(random_, working_.size()));
  } else if (event < 58) {
    SimulatedShard& shard = shards_[Below(random_, shards_.size())];
    if (shard.notified) Notify(shard);
    TakeTurns(shard);
  } else if (event < 63) {
    const std::size_t longest_ms = is_slow_ ? 8'000 : OneIn(random_, 30) ? 14'000 : 200;
    TimePasses(absl::Milliseconds(Below(random_, longest_ms)));
  } else {
    EventOfTheService();
  }
}

std::string World::Run() {
  for (std::size_t steps = 20 + Below(random_, 150); steps > 0 && ledger_.violation.empty(); --steps) {
    RandomEvent();
    Check();
  }
  if (ledger_.violation.empty()) Settle();
  if (ledger_.violation.empty()) LetTheSilentTimeOut();
  if (ledger_.violation.empty()) CheckEnd();
  return ledger_.violation;
}

void World::Check() {
  for (SimulatedClient& client : clients_) client.Check();
  ledger_.Expect(service_.admission.in_progress() ==
                     ledger_.Inside(Admission::Kind::kReduction) + ledger_.Inside(Admission::Kind::kMerge),
                 "admission does not count the calls in progress");
  for (const SimulatedShard& shard : shards_) {
    const SlotShare& slots = shard.shard->slots();
    // Of several devices, it may be another's that is free.
    ledger_.Expect(slots.waiting() == 0 || slots.free() == 0 || (devices_ > 1 && slots.free() < slots.size()),
                   "a slot is free and somebody waits");
    const auto in_progress =
        std::count_if(clients_.begin(), clients_.end(), [&](const SimulatedClient& client) {
          return client.begun() && !client.answered() && &client.shard() == shard.shard.get();
        });
    ledger_.Expect(slots.waiting() <= static_cast<std::size_t>(in_progress),
                   "an answered call waits for a slot");
    ledger_.Expect(in_progress > 0 || !shard.shard->turns().has_waiting(),
                   "an answered call waits for its turn");
  }
}

}  // namespace warpfold::server
