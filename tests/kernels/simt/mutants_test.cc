// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Shows that --device=simt finds what it is meant to find: without any one barrier of a kernel that it runs,
// or without the ticket's release or its acquire, a run goes wrong under one of the first 1,000 seeds; with
// all of them no run does. docs/simt.md has the table.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/simt/kernel_runs.h"

namespace warpfold::kernels::simt {
namespace {

constexpr std::uint64_t kSeeds = 1000;

std::vector<std::unique_ptr<KernelRuns>>& Runs() {
  static auto* const runs = new auto(AllKernelRuns());
  return *runs;
}

std::filesystem::path SourceFolder() {
  const char* const folder = std::getenv("WARPFOLD_SOURCE");
  return folder == nullptr ? "." : folder;
}

// Which runs have a synchronisation, for all that there are.
const std::map<Site, std::vector<KernelRuns*>>& Reached() {
  static auto* const reached = [] {
    auto* sites = new std::map<Site, std::vector<KernelRuns*>>;
    for (const auto& runs : Runs()) {
      for (const Site& site : runs->Sites()) (*sites)[site].push_back(runs.get());
    }
    return sites;
  }();
  return *reached;
}

// "| `ticket.cuh` | barrier 2 |": the second one in the file. Line numbers change more often.
std::string RowOf(const Site& site) {
  int number = 0;
  for (const auto& [other, runs] : Reached()) {
    number += other.file == site.file && other.part == site.part && other.line <= site.line;
  }
  const char* const part = site.part == Part::kBarrier   ? "barrier "
                           : site.part == Part::kRelease ? "release "
                                                         : "acquire ";
  return absl::StrCat("| `", site.file, "` | ", part, number, " |");
}

// The files whose synchronisation must be reached and found: those of the textbook, and those of the
// production kernels that run on simt.
std::vector<std::filesystem::path> Files() {
  const std::filesystem::path kernels = SourceFolder() / "kernels/cuda";
  std::vector<std::filesystem::path> files = {kernels / "ticket.cuh",
                                              kernels / "fold.cuh",
                                              kernels / "node_folder.cuh",
                                              kernels / "warp_folder.cuh",
                                              kernels / "reduce_kernel.cuh",
                                              kernels / "leaf/ordered_leaves.cuh",
                                              kernels / "matrix/tree_kernel.cuh",
                                              kernels / "matrix/entrywise_kernel.cuh"};
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() / "kernels/cuda/textbook")) {
    if (entry.path().extension() == ".cuh") files.push_back(entry.path());
  }
  return files;
}

// [first, end), or the one seed that is requested: WARPFOLD_SIMT_SEED=7 replays what that seed does, with all
// synchronisation and without each.
std::pair<std::uint64_t, std::uint64_t> Seeds(std::uint64_t first, std::uint64_t end) {
  const char* const only = std::getenv("WARPFOLD_SIMT_SEED");
  std::uint64_t seed = 0;
  if (only == nullptr || !absl::SimpleAtoi(only, &seed)) return {first, end};
  return {seed, seed + 1};
}

TEST(MutantsTest, WithAllSynchronisationNothingIsFound) {
  const auto [first, end] = Seeds(0, SmallScale() ? 4 : 40);
  for (const auto& runs : Runs()) {
    for (std::uint64_t seed = first; seed < end; ++seed) {
      ASSERT_EQ(runs->Run(seed), "") << runs->name() << ", seed " << seed;
    }
  }
}

TEST(MutantsTest, RunsReachEverySynchronisation) {
  for (const std::filesystem::path& file : Files()) {
    std::ifstream lines(file);
    std::string line;
    for (unsigned number = 1; std::getline(lines, line); ++number) {
      const std::string code = line.substr(0, line.find("//"));
      std::vector<Part> parts;
      if (absl::StrContains(code, "__sync") || absl::StrContains(code, ".sync()")) parts = {Part::kBarrier};
      if (absl::StrContains(code, "AcquireRelease(")) parts = {Part::kRelease, Part::kAcquire};
      for (const Part part : parts) {
        EXPECT_TRUE(Reached().contains({file.filename().string(), number, part}))
            << file.filename() << ":" << number;
      }
    }
  }
}

// The rows of the page's table.
std::vector<std::string> RowsOfPage() {
  std::ifstream page(SourceFolder() / "docs/simt.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (absl::StartsWith(line, "| `") && absl::StrContains(line, ".cuh` | ")) rows.push_back(line);
  }
  return rows;
}

// The page must have each row with the run that finds it first, and no other rows.
TEST(MutantsTest, EachIsFound) {
  const auto [first, end] = Seeds(1, kSeeds + 1);
  std::vector<std::string> rows;
  for (const auto& [site, all] : Reached()) {
    std::string found;
    for (std::uint64_t seed = first; seed < end && found.empty(); ++seed) {
      for (KernelRuns* runs : all) {
        const std::string how = runs->Run(seed, &site);
        if (how.empty()) continue;
        found = runs->name();
        std::printf("%s %s | %d | %s |\n", RowOf(site).c_str(), found.c_str(), static_cast<int>(seed),
                    how.c_str());
        std::fflush(stdout);
        break;
      }
    }
    EXPECT_NE(found, "") << RowOf(site);
    rows.push_back(absl::StrCat(RowOf(site), " ", found, " |"));
  }
  EXPECT_THAT(RowsOfPage(), testing::UnorderedElementsAreArray(rows)) << "the table of docs/simt.md";
}

}  // namespace
}  // namespace warpfold::kernels::simt
