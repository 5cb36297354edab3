// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of another process on the same GPU, or on one of several. The other process is this executable,
// started again: it allocates, reports its handle, and waits until it is told to end.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "kernels/backend.h"
#include "kernels/devices.h"
#include "kernels/error.h"
#include "server/memory/handle_prober.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels {
namespace {

constexpr char kExporterFlag[] = "--export_memory";
constexpr char kProberFlag[] = "--probe_memory";
constexpr char kDevice[] = "cuda:0";
constexpr std::uint64_t kElements = (std::uint64_t{1} << 26) + 5;  // a quarter GiB of float32, and a bit
constexpr std::uint64_t kBytes = 4 * kElements;
constexpr std::size_t kShownBytes = 1 << 12;  // a pipe takes them at once

std::vector<std::byte> Elements() {
  Random random(7);
  return RandomElements(ElementType::kFloat32, kElements, Flavour::kWide, random);
}

// The work of the other process.
int ExportMemory(int ordinal) {
  const std::vector<std::byte> elements = Elements();
  void* memory = nullptr;
  cudaIpcMemHandle_t handle;
  std::array<char, ProcessMemory::kBusIdBytes> bus_id = {};
  if (cudaSetDevice(ordinal) != cudaSuccess || cudaMalloc(&memory, kBytes) != cudaSuccess ||
      cudaMemcpy(memory, elements.data(), kBytes, cudaMemcpyHostToDevice) != cudaSuccess ||
      cudaIpcGetMemHandle(&handle, memory) != cudaSuccess ||
      cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), ordinal) != cudaSuccess ||
      write(STDOUT_FILENO, &handle, sizeof(handle)) != sizeof(handle) ||
      write(STDOUT_FILENO, bus_id.data(), bus_id.size()) != static_cast<ssize_t>(bus_id.size())) {
    return 1;
  }
  // Each byte that arrives is an order: to show what the memory begins with, or to free it.
  std::array<std::byte, kShownBytes> shown;
  char order;
  while (read(STDIN_FILENO, &order, 1) == 1) {
    const cudaError_t error =
        order == 's' ? cudaMemcpy(shown.data(), memory, kShownBytes, cudaMemcpyDefault) : cudaFree(memory);
    const std::size_t bytes = order == 's' ? shown.size() : 1;
    if (error != cudaSuccess || write(STDOUT_FILENO, shown.data(), bytes) != static_cast<ssize_t>(bytes)) {
      return 1;
    }
  }
  return 0;
}

class Exporter {
 public:
  explicit Exporter(int ordinal = 0) {
    int out[2];
    int in[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC) | pipe2(in, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(in[0], STDIN_FILENO);
      execl("/proc/self/exe", "exporter", kExporterFlag, std::to_string(ordinal).c_str(), nullptr);
      _exit(1);
    }
    close(out[1]);
    close(in[0]);
    to_ = in[1];
    from_ = out[0];
    EXPECT_EQ(read(from_, memory_.handle.data(), memory_.handle.size()),
              static_cast<ssize_t>(memory_.handle.size()));
    EXPECT_EQ(read(from_, memory_.pci_bus_id.data(), memory_.pci_bus_id.size()),
              static_cast<ssize_t>(memory_.pci_bus_id.size()));
    memory_.byte_count = kBytes;
  }
  ~Exporter() { End(); }

  const ProcessMemory& memory() const { return memory_; }
  void Kill() { kill(pid_, SIGKILL); }
  // Has the owner free the memory, and waits until it has.
  void Free() {
    char order = 'f';
    EXPECT_EQ(write(to_, &order, 1), 1);
    EXPECT_EQ(read(from_, &order, 1), 1);
  }
  // What the owner itself finds at the start of its memory.
  std::vector<std::byte> Show() {
    std::vector<std::byte> shown(kShownBytes);
    EXPECT_EQ(write(to_, "s", 1), 1);
    EXPECT_EQ(read(from_, shown.data(), shown.size()), static_cast<ssize_t>(shown.size()));
    return shown;
  }
  void End() {
    if (pid_ < 0) return;
    close(to_);
    close(from_);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  ProcessMemory memory_;
};

ReductionPlan SumAndMax() {
  ReductionSpec spec;
  spec.operators = {"sum", "max"};
  spec.element_type = ElementType::kFloat32;
  return *ReductionPlan::Create(spec);
}

class ProcessMemoryTest : public testing::Test {
 protected:
  explicit ProcessMemoryTest(const char* device = kDevice) {
    std::string note;
    absl::StatusOr<std::unique_ptr<Backend>> backend = MakeBackend(device, {.slots = 2}, &note);
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  PartialState ReduceAll(const Memory& memory, std::uint64_t byte_offset, std::uint64_t count) {
    const ReductionPlan reduction = SumAndMax();
    PartialState whole(reduction, 0);
    Slot& slot = SlotOf(*memory.device());
    for (std::uint64_t first = 0; first < count;) {
      const std::uint64_t offset = byte_offset + 4 * first;
      const std::uint64_t n = std::min(count - first, slot.CapacityFrom(reduction, memory, offset));
      EXPECT_TRUE(slot.StartFrom(reduction, first, n, memory, offset).ok());
      const absl::StatusOr<SlotResult> result = slot.Wait();
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return whole;
      EXPECT_TRUE(whole.Append(*result->state).ok());
      first += n;
    }
    return whole;
  }

  Slot& SlotOf(int device) {
    for (const auto& slot : backend_->slots()) {
      if (slot->device() == device) return *slot;
    }
    std::abort();
  }

  void ExpectSum(const Memory& memory, std::uint64_t first, std::uint64_t count) {
    const std::vector<std::byte> elements = Elements();
    const PartialState expected =
        ReduceOnHost(SumAndMax(), 0, std::span(elements).subspan(4 * first, 4 * count));
    const PartialState found = ReduceAll(memory, 4 * first, count);
    for (std::size_t op = 0; op < 2; ++op) {
      EXPECT_EQ(found.Finish(op)->entries[0].double_value, expected.Finish(op)->entries[0].double_value);
    }
  }

  void ExpectRefused(const ProcessMemory& memory) {
    const absl::Status status = backend_->Open(memory).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ErrorReason(status), "BAD_MEMORY");
    EXPECT_TRUE(backend_->fault().ok()) << backend_->fault();
  }

  // Reduces the memory of a process to which something is done meanwhile.
  void ExpectRightWhile(void (Exporter::*done)()) {
    Exporter exporter;
    const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(exporter.memory());
    ASSERT_TRUE(memory.ok()) << memory.status();
    const ReductionPlan reduction = SumAndMax();
    Slot& slot = *backend_->slots().front();
    for (int i = 0; i < 200; ++i) {
      if (i == 100) (exporter.*done)();
      ASSERT_TRUE(slot.StartFrom(reduction, 0, kElements / 1024 * 1024, **memory, 0).ok());
      ASSERT_TRUE(slot.Wait().ok()) << i;
    }
    exporter.End();
    ExpectSum(**memory, 0, kElements);
    EXPECT_TRUE(backend_->fault().ok());
  }

  std::unique_ptr<Backend> backend_;
};

TEST_F(ProcessMemoryTest, IsReducedInPlaceAndAtAnyOffset) {
  const Exporter exporter;
  const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(exporter.memory());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_FALSE((*memory)->host_can_read());
  ExpectSum(**memory, 0, kElements);
  ExpectSum(**memory, 1, kElements - 1);  // misaligned: goes through the slot
  ExpectSum(**memory, 4096, 1000);
}

// The columns of two operators, written there by a slot, and a value by the host.
TEST_F(ProcessMemoryTest, TakesResultsOfSegments) {
  Exporter exporter;
  const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(exporter.memory());
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<std::byte> expected = exporter.Show();
  constexpr std::uint64_t kSegments = 100;
  constexpr std::uint64_t kFirst = 3;
  constexpr std::uint64_t kStride = 200;
  const std::vector<std::byte> elements = Elements();
  Slot& slot = *backend_->slots().front();
  const SegmentCut cut = {.segment_count = kSegments, .length = 1000};
  std::copy_n(elements.begin(), cut.ElementCount() * 4, slot.staging().begin());
  ASSERT_TRUE(slot.StartSegments(SumAndMax(), cut).ok());
  const absl::StatusOr<SegmentsResult> returned = slot.WaitSegments();
  ASSERT_TRUE(returned.ok()) << returned.status();
  for (std::size_t column = 0; column < 2; ++column) {
    std::memcpy(expected.data() + 8 * (kFirst + column * kStride), returned->Column(column).data(),
                8 * kSegments);
  }

  auto* const values = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>((*memory)->data()));
  SegmentCut to_memory = cut;
  to_memory.results = {.values = values + kFirst, .stride = kStride, .device = (*memory)->device()};
  std::copy_n(elements.begin(), cut.ElementCount() * 4, slot.staging().begin());
  ASSERT_TRUE(slot.StartSegments(SumAndMax(), to_memory).ok());
  const absl::StatusOr<SegmentsResult> written = slot.WaitSegments();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_TRUE(written->values.empty());
  EXPECT_EQ(exporter.Show(), expected);

  const std::uint64_t value = 42;
  std::memcpy(expected.data() + 8, &value, sizeof(value));
  ASSERT_TRUE((*memory)->Write(8, std::as_bytes(std::span(&value, 1))).ok());
  EXPECT_EQ(exporter.Show(), expected);
  exporter.End();
  EXPECT_TRUE((*memory)->Write(8, std::as_bytes(std::span(&value, 1))).ok());
  EXPECT_TRUE(backend_->fault().ok()) << backend_->fault();
}

TEST_F(ProcessMemoryTest, PartOfAnAllocationIsCheckedAgainstIt) {
  const Exporter exporter;
  ProcessMemory part = exporter.memory();
  part.byte_offset = 4096;
  part.byte_count = kBytes - 4096;
  const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(part);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->size(), kBytes - 4096);
  // Allocations have some granularity: this is far beyond their end.
  part.byte_offset = 0;
  part.byte_count = 2 * kBytes;
  ExpectRefused(part);
  part.byte_offset = ~std::uint64_t{0} - 100;
  part.byte_count = 4096;
  ExpectRefused(part);
}

TEST_F(ProcessMemoryTest, OpensTwice) {
  const Exporter exporter;
  absl::StatusOr<std::unique_ptr<Memory>> first = backend_->Open(exporter.memory());
  const absl::StatusOr<std::unique_ptr<Memory>> second = backend_->Open(exporter.memory());
  ASSERT_TRUE(first.ok() && second.ok());
  first->reset();
  ExpectSum(**second, 0, 100'000);
}

TEST_F(ProcessMemoryTest, GarbageIsRefusedAndTheDeviceGoesOn) {
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    ProcessMemory garbage = {.byte_offset = 0, .byte_count = 4096};
    for (std::byte& byte : garbage.handle) byte = static_cast<std::byte>(random());
    ExpectRefused(garbage);
  }
  const Exporter exporter;
  const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(exporter.memory());
  ASSERT_TRUE(memory.ok()) << memory.status();
  ExpectSum(**memory, 0, 100'000);
}

TEST_F(ProcessMemoryTest, OfAProcessThatHasEndedIsRefused) {
  Exporter exporter;
  exporter.End();
  ExpectRefused(exporter.memory());
}

absl::Status Probe(server::HandleProber& prober, const ProcessMemory& memory) {
  const auto probing = prober.Start(memory, getuid(), absl::Now());
  while (!probing->result.has_value()) {
    std::vector<pollfd> watched;
    prober.Watch(&watched);
    poll(watched.data(), watched.size(), 10);
    prober.Advance(absl::Now());
  }
  return *probing->result;
}

// Whatever a handle was forged to be, a process that can be spared reads it first. What that process can
// read, the server can read, too.
TEST_F(ProcessMemoryTest, HandlesThatWereTamperedWithDoNotReachTheDevice) {
  server::HandleProber prober({"/proc/self/exe", kProberFlag});
  const Exporter exporter;
  EXPECT_TRUE(Probe(prober, exporter.memory()).ok());
  Random random(2);
  int readable = 0;
  for (std::size_t i = 0; i < 3 * ProcessMemory::kHandleBytes; ++i) {
    ProcessMemory tampered = exporter.memory();
    tampered.handle[i % ProcessMemory::kHandleBytes] ^= static_cast<std::byte>(1 << random() % 8);
    const absl::Status probed = Probe(prober, tampered);
    if (!probed.ok()) {
      EXPECT_EQ(ErrorReason(probed), "BAD_MEMORY") << probed;
      continue;
    }
    ++readable;
    const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(tampered);
    if (memory.ok()) ReduceAll(**memory, 0, kElements);
    ASSERT_TRUE(backend_->fault().ok()) << "byte " << i << ": " << backend_->fault();
  }
  RecordProperty("readable", readable);
  const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(exporter.memory());
  ASSERT_TRUE(memory.ok()) << memory.status();
  ExpectSum(**memory, 0, 100'000);
}

// Open memory stays, whatever becomes of its owner.
TEST_F(ProcessMemoryTest, OwnerDiesWhileItIsRead) { ExpectRightWhile(&Exporter::Kill); }

// CUDA promises nothing here, and so neither does the protocol. But a server must not end because of it.
TEST_F(ProcessMemoryTest, OwnerFreesItWhileItIsRead) { ExpectRightWhile(&Exporter::Free); }

class SeveralGpusMemoryTest : public ProcessMemoryTest {
 protected:
  SeveralGpusMemoryTest() : ProcessMemoryTest("cuda:all") {}
};

TEST_F(ProcessMemoryTest, OfAnotherGpuIsRefused) {
  const Exporter exporter;
  ProcessMemory elsewhere = exporter.memory();
  std::ranges::copy("ffff:ff:1f.7", elsewhere.pci_bus_id.begin());
  ExpectRefused(elsewhere);
  EXPECT_TRUE(absl::IsInvalidArgument(backend_->CheckOwner(elsewhere)));
  EXPECT_TRUE(backend_->CheckOwner(exporter.memory()).ok());
}

// The GPUs of "cuda:all" have their own numbers. Without its name the memory is opened by the first of them
// that can open it, and has the same values.
TEST_F(SeveralGpusMemoryTest, IsOpenedByTheGpuThatHasIt) {
  for (int ordinal = backend_->devices() - 1; ordinal >= 0; --ordinal) {
    const Exporter exporter(ordinal);
    const absl::StatusOr<std::unique_ptr<Memory>> memory = backend_->Open(exporter.memory());
    ASSERT_TRUE(memory.ok()) << "cuda:" << ordinal << ": " << memory.status();
    EXPECT_EQ((*memory)->device(), ordinal);
    ExpectSum(**memory, 0, kElements);
    ProcessMemory nameless = exporter.memory();
    nameless.pci_bus_id = {};
    const absl::StatusOr<std::unique_ptr<Memory>> again = backend_->Open(nameless);
    ASSERT_TRUE(again.ok()) << "cuda:" << ordinal << ": " << again.status();
    ExpectSum(**again, 0, kElements);
  }
}

}  // namespace
}  // namespace warpfold::kernels

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], warpfold::kernels::kExporterFlag) == 0) {
    int ordinal = 0;
    return absl::SimpleAtoi(argv[2], &ordinal) ? warpfold::kernels::ExportMemory(ordinal) : 2;
  }
  if (argc > 1 && std::strcmp(argv[1], warpfold::kernels::kProberFlag) == 0) {
    return warpfold::server::ServeProbes([](const warpfold::kernels::ProcessMemory& memory) {
      return warpfold::kernels::ProbeMemory(warpfold::kernels::kDevice, memory);
    });
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
