// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What `warpfold bench` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/cli/bench/flags.h"
#include "client/cli/bench/load.h"

namespace warpfold::cli {

struct SideResult {
  std::string name;
  std::vector<LoadResult> rounds = {};   // at least one
  std::optional<double> set_up_ms = {};  // of all callers' memory, if it had to be handed over
};

// One object per side, with the same names in the same order. Unknown values are null. The ratios are those
// of the first side to the line's own side, so they are 1 in the first line.
std::vector<nlohmann::ordered_json> ReportLines(const BenchFlags& flags, const std::string& transport,
                                                std::span<const SideResult> sides);

std::string JsonText(std::span<const nlohmann::ordered_json> lines);
std::string CsvText(std::span<const nlohmann::ordered_json> lines);
std::string TableText(std::span<const nlohmann::ordered_json> lines);

}  // namespace warpfold::cli
