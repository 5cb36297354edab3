// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/timed_stream.h"

#include "kernels/cuda/cuda_status.h"

namespace warpfold::kernels::cuda {

TimedStream::~TimedStream() {
  // Errors cannot be handled here: the process is ending.
  for (cudaEvent_t event : {begun_, copied_, reduced_, returned_}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status TimedStream::Create() {
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (cudaEvent_t* const event : {&begun_, &copied_, &reduced_, &returned_}) {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(event));
  }
  return absl::OkStatus();
}

void TimedStream::Abandon() {
  stream_ = nullptr;
  begun_ = copied_ = reduced_ = returned_ = nullptr;
}

absl::Status TimedStream::Begin() {
  kernels_begin_ = begun_;
  return StatusOf(cudaEventRecord(begun_, stream_), "cudaEventRecord");
}

absl::Status TimedStream::EndCopy() {
  kernels_begin_ = copied_;
  return StatusOf(cudaEventRecord(copied_, stream_), "cudaEventRecord");
}

absl::Status TimedStream::EndKernels() {
  end_ = reduced_;
  return StatusOf(cudaEventRecord(reduced_, stream_), "cudaEventRecord");
}

absl::Status TimedStream::EndReturn() {
  end_ = returned_;
  return StatusOf(cudaEventRecord(returned_, stream_), "cudaEventRecord");
}

absl::Status TimedStream::Await() const {
  return StatusOf(cudaEventSynchronize(end_), "cudaEventSynchronize");
}

absl::Status TimedStream::Measure(Times* times) const {
  float copy_ms = 0;
  float kernel_ms = 0;
  float back_ms = 0;
  if (kernels_begin_ == copied_) {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&copy_ms, begun_, copied_));
  }
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&kernel_ms, kernels_begin_, reduced_));
  if (end_ == returned_) {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&back_ms, reduced_, returned_));
  }
  times->copy = absl::Milliseconds(copy_ms) + absl::Milliseconds(back_ms);
  times->kernel = absl::Milliseconds(kernel_ms);
  return absl::OkStatus();
}

}  // namespace warpfold::kernels::cuda
