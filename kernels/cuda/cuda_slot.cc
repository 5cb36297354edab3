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
#include "kernels/cuda/segments/segment_reducer.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {
namespace {

class CudaSlot : public Slot {
 public:
  CudaSlot(Gpu gpu, std::size_t bytes, Fault& fault) : gpu_(gpu), bytes_(bytes), fault_(fault) {}

  ~CudaSlot() override {
    if (!fault_.Get().ok()) {
      // The context is unusable; freeing would only fail, or hang.
      static_cast<void>(reducer_.release());
      static_cast<void>(segments_.release());
      static_cast<void>(gatherer_.release());
      return;
    }
    cudaSetDevice(gpu_.ordinal);
    for (cudaEvent_t event : {begun_, copied_, reduced_, returned_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    // To free memory waits for all that was enqueued, also for notices that CUDA has yet to give: OnFinished
    // finds this alive. To destroy a stream does not.
    cudaFreeHost(staging_);
    cudaFree(device_);
  }

  int device() const override { return gpu_.device; }
  bool EndsInStart() const override { return false; }

  absl::Status Allocate() {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&begun_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&copied_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&reduced_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&returned_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(
        cudaHostAlloc(reinterpret_cast<void**>(&staging_), bytes_, cudaHostAllocDefault));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&device_), bytes_));
    absl::StatusOr<std::unique_ptr<DeviceReducer>> reducer =
        DeviceReducer::Create(std::max(bytes_, kSlotReducerBytes));
    if (!reducer.ok()) return reducer.status();
    reducer_ = *std::move(reducer);
    absl::StatusOr<std::unique_ptr<SegmentReducer>> segments =
        SegmentReducer::Create(bytes_ / kSegmentResultShare);
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
    if (status.ok()) status = EnqueueSegmentKernels(reduction, cut, device_);
    return Settled(std::move(status));
  }

  // Segments may begin at any element.
  absl::Status StartSegmentsFrom(const ReductionPlan& reduction, const SegmentCut& cut, const Memory& memory,
                                 std::uint64_t byte_offset) override {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data() + byte_offset);
    const bool is_aligned = address % reduction.element_bytes() == 0;
    return Settled(EnqueueSegments(reduction, cut,
                                   SourceOf(memory, byte_offset, memory.host_can_read() || !is_aligned)));
  }

  // Also where the device failed: Wait then says so. An error of the question itself is cleared, or the next
  // launch on this thread would be told of it.
  bool Finished() override {
    if (!fault_.Get().ok()) return true;
    const cudaError_t error = cudaEventQuery(end_);
    if (error == cudaErrorNotReady) return false;
    ended_ = error == cudaSuccess;
    static_cast<void>(fault_.Check(StatusOf(error, "cudaEventQuery")));
    return true;
  }

  absl::StatusOr<SlotResult> Wait() override {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    SlotResult result;
    if (absl::Status status = Settled(Synchronize(result)); !status.ok()) return status;
    if (stores_) return result;
    result.state = reducer_->Collect();
    return result;
  }

  absl::StatusOr<SegmentsResult> WaitSegments() override {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    SlotResult times;
    if (absl::Status status = Settled(Synchronize(times)); !status.ok()) return status;
    SegmentsResult result = segments_->Collect();
    result.copy = times.copy;
    result.kernel = times.kernel;
    return result;
  }

 private:
  // Where CUDA refused a part of the work, or to wait for it, what was enqueued is awaited: nothing may read
  // or write what the caller believes not to be in use. If that is refused, too, the device may use that
  // memory for ever, and counts as lost.
  absl::Status Settled(absl::Status status) {
    status = fault_.Check(std::move(status));
    if (status.ok() || !fault_.Get().ok()) return status;
    absl::Status lost = LossOf(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return lost.ok() ? status : fault_.Check(std::move(lost));
  }

  // True for memory on the device that is aligned as kernels load it. Memory of the host arrives faster by a
  // copy, which several operators then share.
  static bool IsReducedInPlace(const Memory& memory, std::uint64_t byte_offset) {
    return !memory.host_can_read() &&
           reinterpret_cast<std::uintptr_t>(memory.data() + byte_offset) % kVectorBytes == 0;
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
    absl::Status status = reducer_->Launch(reduction, first_element, data, element_count, stream_);
    return status.ok() ? EnqueueEnd() : status;
  }

  absl::Status EnqueueSegments(const ReductionPlan& reduction, const SegmentCut& cut, const Source& source) {
    const std::uint64_t elements = source.is_copied ? cut.ElementCount() : 0;  // a sum, where they vary
    absl::Status status = EnqueueCopy(source, elements * reduction.element_bytes());
    if (!status.ok()) return status;
    return EnqueueSegmentKernels(reduction, cut, source.is_copied ? device_ : source.data);
  }

  absl::Status EnqueueSegmentKernels(const ReductionPlan& reduction, const SegmentCut& cut,
                                     const std::byte* data) {
    if (absl::Status status = segments_->Launch(reduction, cut, data, stream_); !status.ok()) return status;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventRecord(reduced_, stream_));
    if (absl::Status status = segments_->CopyResults(stream_); !status.ok()) return status;
    end_ = returned_;
    return StatusOf(cudaEventRecord(end_, stream_), "cudaEventRecord");
  }

  // What is reduced in its place has no end of copying either: an event takes a microsecond or two.
  absl::Status EnqueueCopy(const Source& source, std::uint64_t byte_count) {
    if (absl::Status begun = EnqueueBegin(); !begun.ok() || !source.is_copied) return begun;
    WARPFOLD_RETURN_IF_CUDA_ERROR(Copy(device_, source, byte_count));
    return EnqueueCopied();
  }

  // No command crosses from one part of registered memory to the next.
  cudaError_t Copy(std::byte* to, const Source& source, std::uint64_t byte_count) {
    for (std::uint64_t done = 0; done < byte_count;) {
      const std::byte* const from = source.data + done;
      std::uint64_t count = byte_count - done;
      if (source.is_registered) count = std::min<std::uint64_t>(count, BytesOfRegistration(from));
      const cudaError_t error = cudaMemcpyAsync(to + done, from, count, cudaMemcpyDefault, stream_);
      if (error != cudaSuccess) return error;
      done += count;
    }
    return cudaSuccess;
  }

  absl::Status EnqueueCopied() {
    kernel_begin_ = copied_;
    return StatusOf(cudaEventRecord(copied_, stream_), "cudaEventRecord");
  }

  // The driver copies between GPUs also where they do not reach each other's memory.
  absl::Status EnqueueCopies(std::span<const MemoryPart> parts) {
    if (absl::Status status = EnqueueBegin(); !status.ok()) return status;
    std::byte* to = device_;
    for (const MemoryPart& part : parts) {
      WARPFOLD_RETURN_IF_CUDA_ERROR(
          Copy(to, SourceOf(*part.memory, part.byte_offset, true), part.byte_count));
      to += part.byte_count;
    }
    return EnqueueCopied();
  }

  absl::Status EnqueueGather(std::span<const HostPiece> pieces, std::byte* to) {
    if (absl::Status status = EnqueueBegin(); !status.ok()) return status;
    WARPFOLD_RETURN_IF_CUDA_ERROR(gatherer_->Launch(pieces, to, stream_));
    return EnqueueCopied();
  }

  absl::Status EnqueueStorePieces(std::byte* to, std::span<const HostPiece> pieces) {
    if (absl::Status status = EnqueueGather(pieces, to); !status.ok()) return status;
    stores_ = true;
    return EnqueueEnd();
  }

  absl::Status EnqueueStore(std::byte* to, std::uint64_t byte_count) {
    if (absl::Status status = EnqueueBegin(); !status.ok()) return status;
    stores_ = true;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, staging_, byte_count, cudaMemcpyHostToDevice, stream_));
    if (absl::Status status = EnqueueCopied(); !status.ok()) return status;
    return EnqueueEnd();
  }

  // All work begins with this, so that none reaches CUDA once the device has failed.
  absl::Status EnqueueBegin() {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    stores_ = false;
    kernel_begin_ = begun_;
    // The current device is a property of the calling thread.
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
    return StatusOf(cudaEventRecord(begun_, stream_), "cudaEventRecord");
  }

  absl::Status EnqueueEnd() {
    end_ = reduced_;
    return StatusOf(cudaEventRecord(end_, stream_), "cudaEventRecord");
  }

  // CUDA runs host functions on a thread of its own, and not at all once the device has failed.
  absl::Status EnqueueNotice() {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
    return StatusOf(cudaLaunchHostFunc(stream_, &CudaSlot::OnFinished, this), "cudaLaunchHostFunc");
  }

  static void CUDART_CB OnFinished(void* slot) { static_cast<CudaSlot*>(slot)->on_finished_(); }

  absl::Status Synchronize(SlotResult& result) {
    if (!std::exchange(ended_, false)) {
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu_.ordinal));
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end_));
    }
    float copy_ms = 0;
    float kernel_ms = 0;
    if (kernel_begin_ == copied_) {
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&copy_ms, begun_, copied_));
    }
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&kernel_ms, kernel_begin_, reduced_));
    if (end_ == returned_) {  // the way back counts as copying, too
      float back_ms = 0;
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&back_ms, reduced_, returned_));
      copy_ms += back_ms;
    }
    result.copy = absl::Milliseconds(copy_ms);
    result.kernel = absl::Milliseconds(kernel_ms);
    return absl::OkStatus();
  }

  const Gpu gpu_;
  const std::size_t bytes_;
  Fault& fault_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begun_ = nullptr;
  cudaEvent_t copied_ = nullptr;
  cudaEvent_t reduced_ = nullptr;
  cudaEvent_t returned_ = nullptr;      // results of segments are on the host
  cudaEvent_t kernel_begin_ = nullptr;  // of the current work: one of the first two
  cudaEvent_t end_ = nullptr;           // of the current work: one of the last two
  std::byte* staging_ = nullptr;
  std::byte* device_ = nullptr;
  std::unique_ptr<DeviceReducer> reducer_;
  std::unique_ptr<SegmentReducer> segments_;
  std::unique_ptr<Gatherer> gatherer_;
  bool ended_ = false;   // the current work, as Finished has found
  bool stores_ = false;  // the current work is a StartStore
  std::function<void()> on_finished_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Slot>> MakeCudaSlot(Gpu gpu, std::size_t bytes, Fault& fault) {
  auto slot = std::make_unique<CudaSlot>(gpu, bytes, fault);
  if (absl::Status status = fault.Check(slot->Allocate()); !status.ok()) return status;
  return slot;
}

}  // namespace warpfold::kernels::cuda
