// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Holds a stream back until the host has enqueued everything that is to be timed, so that the events around
// it measure the device at work and not the host enqueuing. (NVBench calls it a blocking kernel.)
#pragma once

#include <cuda_runtime.h>

namespace warpfold::benchmarks {

class StreamGate {
 public:
  StreamGate();
  ~StreamGate();
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  // Work that is enqueued from now on waits for Open. None of it may make the host wait for the stream.
  void Close(cudaStream_t stream);
  void Open();
  // To be called when the stream has passed the gate: ends the process if that was because nobody opened it
  // in time.
  void CheckPassed() const;

 private:
  unsigned closed_ = 0;  // how many times
  // Mapped host memory: how many times it was opened, and whether the device gave up.
  volatile unsigned* host_ = nullptr;
  volatile unsigned* device_ = nullptr;
};

}  // namespace warpfold::benchmarks
