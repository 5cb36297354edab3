// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of kernels on a simt::Device, with elements and a schedule that a seed chooses. Their results are
// compared with what the CPU computes from the elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/simt/device.h"

namespace warpfold::kernels::simt {

class DeviceReducer;  // of kernels/cuda

class KernelRuns {
 public:
  // What a run uses; it is made anew after a run that went wrong, which may leave tickets in any state.
  struct Bench {
    Bench();
    ~Bench();

    Device device{0};
    std::unique_ptr<DeviceReducer> reducer;  // of up to 64 KiB
    std::byte* scratch = nullptr;            // kScratchBytes that blocks share
  };
  static constexpr std::size_t kScratchBytes = 4 << 10;
  // Returns what is wrong: the device's report, or that the result is wrong; "" if nothing is.
  using Function = std::function<std::string(Bench&, std::uint64_t seed)>;

  KernelRuns(std::string name, Function function);

  const std::string& name() const { return name_; }

  // The run with this seed, without `removed` if that is not null.
  std::string Run(std::uint64_t seed, const Site* removed = nullptr);

  // The synchronisations that such runs could lose.
  std::set<Site> Sites();

 private:
  const std::string name_;
  const Function function_;
  std::unique_ptr<Bench> bench_;
};

// Every algorithm of the textbook, and production kernels of each kind.
std::vector<std::unique_ptr<KernelRuns>> AllKernelRuns();

}  // namespace warpfold::kernels::simt
