// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A stream, and the events from which a slot knows when its work has ended and how long each part of it took:
//
//   Begin  [copies to the device  EndCopy]  kernels  EndKernels  [the way back  EndReturn]
//
// An event takes a microsecond or two, so work that copies nothing has no event for copies.
//
// Threads: only one at a time. A thread that calls Create must have made the GPU current, because the stream
// and the events are made on it. So must one that calls Begin or an End, because the work between them is
// enqueued for that GPU. Query, Await and Measure query only the events, and CUDA answers whichever GPU is
// current.
#pragma once

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpfold::kernels::cuda {

class TimedStream {
 public:
  TimedStream() = default;
  ~TimedStream();
  TimedStream(const TimedStream&) = delete;
  TimedStream& operator=(const TimedStream&) = delete;

  // Makes the stream and its events, on the current GPU.
  absl::Status Create();
  // Makes the destructor touch nothing: the device is lost.
  void Abandon();

  cudaStream_t get() const { return stream_; }

  absl::Status Begin();
  absl::Status EndCopy();
  absl::Status EndKernels();
  absl::Status EndReturn();

  // Returns cudaErrorNotReady until the device has reached the point that the last End marked.
  cudaError_t Query() const { return cudaEventQuery(end_); }
  absl::Status Await() const;

  struct Times {
    absl::Duration copy;  // there and back
    absl::Duration kernel;
  };
  // How long the parts of the work that has ended took.
  absl::Status Measure(Times* times) const;

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begun_ = nullptr;
  cudaEvent_t copied_ = nullptr;
  cudaEvent_t reduced_ = nullptr;
  cudaEvent_t returned_ = nullptr;
  // The current work's kernels begin at one of the first two events, and it ends at one of the last two.
  cudaEvent_t kernels_begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace warpfold::kernels::cuda
