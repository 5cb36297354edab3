// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_slot.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/gatherer.h"
#include "kernels/cuda/registration.h"
#include "kernels/cuda/segments/device_segment_reducer.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/timed_stream.h"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {
namespace {

class CudaSlot : public Slot {
 public:
  CudaSlot(Gpu gpu, std::size_t bytes, const std::span<const std::byte>& piece_memory, Fault& fault)
      : gpu_(gpu), bytes_(bytes), piece_memory_(piece_memory), fault_(fault) {}

  ~CudaSlot() override {
    if (!fault_.Get().ok()) {
      // The context is unusable; freeing would only fail, or hang.
      stream_.Abandon();
      static_cast<void>(reducer_.release());
      static_cast<void>(segments_.release());
      static_cast<void>(gatherer_.release());
      return;
    }
    cudaSetDevice(gpu_.ordinal);
    // Freeing memory waits for everything that was enqueued, also for notices that CUDA has yet to deliver,
    // so that OnFinished finds this object alive. Destroying a stream does not wait.
    cudaFreeHost(staging_);
    cudaFree(device_);
  }

  int device() const override { return gpu_.device; }
  bool EndsInStart() const override { return false; }
  // Of the kernels in docs/benchmarks.md, the slowest one takes 0.17 ns on an H200: the textbook's
  // single_block_ordered of int32, with wide states.
  absl::Duration MostTimePerByte() const override { return absl::Nanoseconds(20); }

  absl::Status Allocate() {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
    if (absl::Status status = stream_.Create(); !status.ok()) return status;
    WARPFOLD_RETURN_IF_CUDA_ERROR(
        cudaHostAlloc(reinterpret_cast<void**>(&staging_), bytes_, cudaHostAllocDefault));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&device_), bytes_));
    absl::StatusOr<std::unique_ptr<DeviceReducer>> reducer =
        DeviceReducer::Create(std::max(bytes_, kSlotReducerBytes));
    if (!reducer.ok()) return reducer.status();
    reducer_ = *std::move(reducer);
    absl::StatusOr<std::unique_ptr<DeviceSegmentReducer>> segments =
        DeviceSegmentReducer::Create(bytes_ / kSegmentResultShare);
    if (!segments.ok()) return segments.status();
    segments_ = *std::move(segments);
    absl::StatusOr<std::unique_ptr<Gatherer>> gatherer = Gatherer::Create(bytes_, kMaxPieces);
    if (!gatherer.ok()) return gatherer.status();
    gatherer_ = *std::move(gatherer);
    return absl::OkStatus();
  }

  std::span<std::byte> staging() override { return {staging_, bytes_}; }
  std::uint64_t host_bytes() override { return MemoryOfSlot(bytes_).host_bytes; }
  std::uint64_t Capacity(const ReductionPlan& reduction) const override {
    return std::min(reducer_->Capacity(reduction),
                    bytes_ / reduction.leaf_bytes() * reduction.leaf_elements());
  }

  void NotifyBy(std::function<void()> on_finished) override { on_finished_ = std::move(on_finished); }

  void Notify() override {
    if (!fault_.Get().ok()) return on_finished_();
    if (!fault_.Check(EnqueueNotice()).ok()) on_finished_();
  }

  absl::Status Start(const ReductionPlan& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    return Settled(Enqueue(reduction, first_element, element_count, {.data = staging_}));
  }

  std::uint64_t CapacityFrom(const ReductionPlan& reduction, const Memory& memory,
                             std::uint64_t byte_offset) const override {
    return IsReducedInPlace(memory, byte_offset) ? reducer_->Capacity(reduction) : Capacity(reduction);
  }

  absl::Status StartFrom(const ReductionPlan& reduction, std::uint64_t first_element,
                         std::uint64_t element_count, const Memory& memory,
                         std::uint64_t byte_offset) override {
    return Settled(Enqueue(reduction, first_element, element_count,
                           SourceOf(memory, byte_offset, !IsReducedInPlace(memory, byte_offset))));
  }

  absl::Status StartAcross(const ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const MemoryPart> parts) override {
    absl::Status status = EnqueueCopies(parts);
    if (status.ok()) status = EnqueueKernels(reduction, first_element, element_count, device_);
    return Settled(std::move(status));
  }

  bool Reads(HostPiece bytes) const override {
    // Only std::less orders pointers into different objects.
    constexpr std::less_equal<> kNotAfter;
    return !piece_memory_.empty() && kNotAfter(piece_memory_.data(), bytes.data()) &&
           kNotAfter(bytes.data() + bytes.size(), piece_memory_.data() + piece_memory_.size());
  }

  absl::Status StartPieces(const ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const HostPiece> pieces) override {
    absl::Status status = EnqueueGather(pieces, device_);
    if (status.ok()) status = EnqueueKernels(reduction, first_element, element_count, device_);
    return Settled(std::move(status));
  }

  absl::Status StartStore(const Memory& memory, std::uint64_t byte_offset,
                          std::uint64_t byte_count) override {
    return Settled(EnqueueStore(const_cast<std::byte*>(memory.data()) + byte_offset, byte_count));
  }

  absl::Status StartStorePieces(const Memory& memory, std::uint64_t byte_offset,
                                std::span<const HostPiece> pieces) override {
    return Settled(EnqueueStorePieces(const_cast<std::byte*>(memory.data()) + byte_offset, pieces));
  }

  std::uint64_t SegmentCapacity(const ReductionPlan& reduction) const override {
    return segments_->Capacity(reduction);
  }

  absl::Status StartSegments(const ReductionPlan& reduction, const SegmentCut& cut) override {
    return Settled(EnqueueSegments(reduction, cut, {.data = staging_}));
  }

  absl::Status StartSegmentPieces(const ReductionPlan& reduction, const SegmentCut& cut,
                                  std::span<const HostPiece> pieces) override {
    absl::Status status = EnqueueGather(pieces, device_);
    if (status.ok()) status = EnqueueSegmentKernels(reduction, cut, device_, {});
    return Settled(std::move(status));
  }

  std::uint64_t SegmentElementsFrom(const ReductionPlan& reduction, const Memory& memory,
                                    std::uint64_t byte_offset) const override {
    return IsReducedInPlace(memory, byte_offset, reduction.element_bytes()) ? reducer_->Capacity(reduction)
                                                                            : Capacity(reduction);
  }

  std::uint64_t SegmentCapacityFrom(const ReductionPlan& reduction, const Memory& memory,
                                    std::uint64_t byte_offset) const override {
    return IsReducedInPlace(memory, byte_offset, reduction.element_bytes())
               ? DeviceSegmentReducer::CapacityOf(bytes_, reduction)
               : SegmentCapacity(reduction);
  }

  absl::Status StartSegmentsFrom(const ReductionPlan& reduction, const SegmentCut& cut, const Memory& memory,
                                 std::uint64_t byte_offset) override {
    const bool is_copied = !IsReducedInPlace(memory, byte_offset, reduction.element_bytes());
    return Settled(EnqueueSegments(reduction, cut, SourceOf(memory, byte_offset, is_copied)));
  }

  // True also if the device failed: Wait then says so. StatusOf clears an error, or the next launch on this
  // thread would return it; CUDA does not remember as an error that the work has not ended yet.
  bool Finished() override {
    if (!fault_.Get().ok()) return true;
    const cudaError_t error = stream_.Query();
    if (error == cudaErrorNotReady) return false;
    ended_ = error == cudaSuccess;
    static_cast<void>(fault_.Check(StatusOf(error, "cudaEventQuery")));
    return true;
  }

  absl::StatusOr<SlotResult> Wait() override {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    const absl::StatusOr<TimedStream::Times> times = Synchronize();
    if (absl::Status status = Settled(times.status()); !status.ok()) return status;
    SlotResult result = {.state = std::nullopt, .copy = times->copy, .kernel = times->kernel};
    if (!stores_) result.state = reducer_->Collect();
    return result;
  }

  absl::StatusOr<SegmentsResult> WaitSegments() override {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    const absl::StatusOr<TimedStream::Times> times = Synchronize();
    if (absl::Status status = Settled(times.status()); !status.ok()) return status;
    SegmentsResult result = segments_->Collect();
    result.copy = times->copy;
    result.kernel = times->kernel;
    return result;
  }

 private:
  // If CUDA refused a part of the work, or to wait for it, this waits for what was enqueued: nothing may read
  // or write memory that the caller believes not to be in use. If that is refused, too, the device may use
  // that memory forever, and counts as lost.
  absl::Status Settled(absl::Status status) {
    status = fault_.Check(std::move(status));
    if (status.ok() || !fault_.Get().ok()) return status;
    absl::Status lost = LossOf(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    return lost.ok() ? status : fault_.Check(std::move(lost));
  }

  // True for memory on the device that is aligned as kernels load it: to a vector, or to an element of
  // segments. Memory of the host arrives faster through a copy, which several operators then share.
  static bool IsReducedInPlace(const Memory& memory, std::uint64_t byte_offset,
                               std::uint64_t alignment = kVectorBytes) {
    return !memory.host_can_read() &&
           reinterpret_cast<std::uintptr_t>(memory.data() + byte_offset) % alignment == 0;
  }

  // Where elements lie, and whether they are copied to the device's twin of the staging buffer.
  struct Source {
    const std::byte* data = nullptr;
    bool is_copied = true;
    bool is_registered = false;  // memory of the host, in parts
  };
  static Source SourceOf(const Memory& memory, std::uint64_t byte_offset, bool is_copied) {
    return {memory.data() + byte_offset, is_copied, memory.host_can_read()};
  }

  absl::Status Enqueue(const ReductionPlan& reduction, std::uint64_t first_element,
                       std::uint64_t element_count, const Source& source) {
    absl::Status status = EnqueueCopy(source, element_count * reduction.element_bytes());
    if (!status.ok()) return status;
    return EnqueueKernels(reduction, first_element, element_count, source.is_copied ? device_ : source.data);
  }

  absl::Status EnqueueKernels(const ReductionPlan& reduction, std::uint64_t first_element,
                              std::uint64_t element_count, const std::byte* data) {
    absl::Status status = reducer_->Launch(reduction, first_element, data, element_count, stream_.get());
    return status.ok() ? stream_.EndKernels() : status;
  }

  absl::Status EnqueueSegments(const ReductionPlan& reduction, const SegmentCut& cut, const Source& source) {
    const std::uint64_t elements = source.is_copied ? cut.ElementCount() : 0;  // a sum, if they vary
    absl::Status status = EnqueueCopy(source, elements * reduction.element_bytes());
    if (!status.ok()) return status;
    if (source.is_copied) return EnqueueSegmentKernels(reduction, cut, device_, {});
    return EnqueueSegmentKernels(reduction, cut, source.data, {device_, bytes_});
  }

  // `room` is free for results.
  absl::Status EnqueueSegmentKernels(const ReductionPlan& reduction, const SegmentCut& cut,
                                     const std::byte* data, std::span<std::byte> room) {
    const DeviceSegmentReducer::Places places = {.room = room,
                                                 .has_columns = cut.results.device == gpu_.device};
    absl::Status status = segments_->Launch(reduction, cut, data, stream_.get(), places);
    if (status.ok()) status = stream_.EndKernels();
    if (!status.ok() || !segments_->NeedsCopy()) return status;
    status = segments_->CopyResults(stream_.get());
    return status.ok() ? stream_.EndReturn() : status;
  }

  absl::Status EnqueueCopy(const Source& source, std::uint64_t byte_count) {
    if (absl::Status begun = EnqueueBegin(); !begun.ok() || !source.is_copied) return begun;
    WARPFOLD_RETURN_IF_CUDA_ERROR(Copy(device_, source, byte_count));
    return stream_.EndCopy();
  }

  // No copy command may cross from one part of registered memory to the next.
  cudaError_t Copy(std::byte* to, const Source& source, std::uint64_t byte_count) {
    for (std::uint64_t done = 0; done < byte_count;) {
      const std::byte* const from = source.data + done;
      std::uint64_t count = byte_count - done;
      if (source.is_registered) count = std::min<std::uint64_t>(count, BytesOfRegistration(from));
      const cudaError_t error = cudaMemcpyAsync(to + done, from, count, cudaMemcpyDefault, stream_.get());
      if (error != cudaSuccess) return error;
      done += count;
    }
    return cudaSuccess;
  }

  // The driver copies between GPUs even if they cannot access each other's memory.
  absl::Status EnqueueCopies(std::span<const MemoryPart> parts) {
    if (absl::Status status = EnqueueBegin(); !status.ok()) return status;
    std::byte* to = device_;
    for (const MemoryPart& part : parts) {
      WARPFOLD_RETURN_IF_CUDA_ERROR(
          Copy(to, SourceOf(*part.memory, part.byte_offset, true), part.byte_count));
      to += part.byte_count;
    }
    return stream_.EndCopy();
  }

  absl::Status EnqueueGather(std::span<const HostPiece> pieces, std::byte* to) {
    if (absl::Status status = EnqueueBegin(); !status.ok()) return status;
    WARPFOLD_RETURN_IF_CUDA_ERROR(gatherer_->Launch(pieces, to, stream_.get()));
    return stream_.EndCopy();
  }

  absl::Status EnqueueStorePieces(std::byte* to, std::span<const HostPiece> pieces) {
    if (absl::Status status = EnqueueGather(pieces, to); !status.ok()) return status;
    stores_ = true;
    return stream_.EndKernels();
  }

  absl::Status EnqueueStore(std::byte* to, std::uint64_t byte_count) {
    if (absl::Status status = EnqueueBegin(); !status.ok()) return status;
    stores_ = true;
    WARPFOLD_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(to, staging_, byte_count, cudaMemcpyHostToDevice, stream_.get()));
    if (absl::Status status = stream_.EndCopy(); !status.ok()) return status;
    return stream_.EndKernels();
  }

  // All work begins with this, so that none reaches CUDA once the device has failed.
  absl::Status EnqueueBegin() {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    stores_ = false;
    // The current device is a property of the calling thread.
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
    return stream_.Begin();
  }

  // CUDA runs host functions on its own thread, and not at all once the device has failed.
  absl::Status EnqueueNotice() {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
    return StatusOf(cudaLaunchHostFunc(stream_.get(), &CudaSlot::OnFinished, this), "cudaLaunchHostFunc");
  }

  static void CUDART_CB OnFinished(void* slot) { static_cast<CudaSlot*>(slot)->on_finished_(); }

  absl::StatusOr<TimedStream::Times> Synchronize() {
    if (!std::exchange(ended_, false)) {
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
      if (absl::Status status = stream_.Await(); !status.ok()) return status;
    }
    TimedStream::Times times;
    if (absl::Status status = stream_.Measure(&times); !status.ok()) return status;
    return times;
  }

  const Gpu gpu_;
  const std::size_t bytes_;
  const std::span<const std::byte>& piece_memory_;
  Fault& fault_;
  TimedStream stream_;
  std::byte* staging_ = nullptr;
  std::byte* device_ = nullptr;
  std::unique_ptr<DeviceReducer> reducer_;
  std::unique_ptr<DeviceSegmentReducer> segments_;
  std::unique_ptr<Gatherer> gatherer_;
  bool ended_ = false;   // the current work, as Finished has found
  bool stores_ = false;  // the current work is a StartStore
  std::function<void()> on_finished_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Slot>> MakeCudaSlot(Gpu gpu, std::size_t bytes,
                                                   const std::span<const std::byte>& piece_memory,
                                                   Fault& fault) {
  auto slot = std::make_unique<CudaSlot>(gpu, bytes, piece_memory, fault);
  if (absl::Status status = fault.Check(slot->Allocate()); !status.ok()) return status;
  return slot;
}

}  // namespace warpfold::kernels::cuda
