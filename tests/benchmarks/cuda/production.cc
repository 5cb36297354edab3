// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/production.h"

#include "kernels/algorithm.h"
#include "tests/benchmarks/cuda/check.h"

namespace warpfold::benchmarks {

using kernels::ReductionPlan;
using kernels::cuda::DeviceReducer;

const std::vector<std::string>& AlgorithmNames() {
  static const auto* const names = [] {
    auto* list = new std::vector<std::string>;
    for (const kernels::AlgorithmFacts& facts : kernels::kAlgorithms) list->emplace_back(facts.name);
    return list;
  }();
  return *names;
}

Contender Production(const std::string& algorithm, const ReductionPlan& canonical, std::uint64_t bytes,
                     DeviceReducer& reducer, cudaStream_t stream) {
  kernels::ReductionSpec spec = canonical.spec();
  spec.algorithm = kernels::AlgorithmByName(algorithm).value();  // NOLINT(bugprone-unchecked-*): a flag's
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const std::uint64_t count = bytes / reduction.element_bytes();
  const auto call = [reduction, count, &reducer, stream](const std::byte* data) {
    const absl::Status status = reducer.Launch(reduction, 0, data, count, stream);
    if (!status.ok()) Check(cudaErrorLaunchFailure, status.ToString().c_str());
  };
  return {.key = algorithm, .call = call};
}

Contender ProductionFromHost(const std::string& algorithm, const ReductionPlan& reduction,
                             std::uint64_t bytes, DeviceReducer& reducer, cudaStream_t stream) {
  const Contender enqueue = Production(algorithm, reduction, bytes, reducer, stream);
  const auto call = [enqueue, &reducer, stream](const std::byte* data) {
    enqueue.call(data);
    Check(cudaStreamSynchronize(stream), "Warpfold");
    // Whatever the result is, for example an overflow.
    static_cast<void>(reducer.Collect().Finish(0));
  };
  return {.key = algorithm, .call = call, .waits = true};
}

}  // namespace warpfold::benchmarks
