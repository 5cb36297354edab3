// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/json_line.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace warpfold::benchmarks {
namespace {

// Four digits are more than a measurement has.
double Rounded(double value) { return std::strtod(absl::StrFormat("%.4g", value).c_str(), nullptr); }

}  // namespace

JsonLine::JsonLine(const char* bench, const std::string& algorithm, const kernels::ReductionSpec& spec,
                   std::uint64_t bytes)
    : bytes_(bytes) {
  line_["bench"] = bench;
  line_["algorithm"] = algorithm;
  line_["operator"] = spec.operators.front();
  line_["dtype"] = ElementTypeName(spec.element_type);
  line_["matrix"] = spec.shape.rows == spec.shape.columns ? spec.shape.rows : 0;
  line_["modulus"] = spec.modulus.value_or(0);
  line_["bytes"] = bytes;
}

void JsonLine::AddMicroseconds(const std::string& prefix, const std::string& contender,
                               const Standings& standings) {
  const auto found = standings.find(contender);
  if (found == standings.end()) {
    line_[prefix + "us"] = nullptr;
    return;
  }
  line_[prefix + "us"] = Rounded(found->second.median);
  line_[prefix + "us_p10"] = Rounded(found->second.p10);
  line_[prefix + "us_p90"] = Rounded(found->second.p90);
}

void JsonLine::AddGbps(const std::string& prefix, const std::string& contender, const Standings& standings) {
  const auto found = standings.find(contender);
  if (found == standings.end()) {
    line_[prefix + "gbps"] = nullptr;
    return;
  }
  const auto gbps = [&](double us) { return Rounded(static_cast<double>(bytes_) / us / 1e3); };
  line_[prefix + "gbps"] = gbps(found->second.median);
  line_[prefix + "gbps_p10"] = gbps(found->second.p90);  // the slowest tenth of the calls
  line_[prefix + "gbps_p90"] = gbps(found->second.p10);
}

void JsonLine::AddRatio(const char* key, const std::string& contender, const std::string& other,
                        const Standings& standings) {
  const auto ours = standings.find(contender);
  const auto theirs = standings.find(other);
  if (ours == standings.end() || theirs == standings.end()) {
    line_[key] = nullptr;
  } else {
    line_[key] = Rounded(theirs->second.median / ours->second.median);
  }
}

void JsonLine::Print(const Provenance& provenance) {
  line_["device"] = provenance.device;
  if (!provenance.driver.empty()) line_["driver"] = provenance.driver;
  line_["commit"] = provenance.commit;
  line_["date"] = provenance.date;
  std::printf("%s\n", line_.dump().c_str());
  std::fflush(stdout);
}

}  // namespace warpfold::benchmarks
