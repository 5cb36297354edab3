// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// That --device=simt finds what it is for: without any one barrier of a kernel that it runs, or without the
// ticket's release or its acquire, a run goes wrong under one of the first 1,000 seeds; with all of them none
// does. docs/simt.md has the table.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/simt/kernel_runs.h"

namespace warpfold::kernels::simt {
namespace {

constexpr std::uint64_t kSeeds = 1000;
// The seeds for what is printed but need not be found.
constexpr std::uint64_t kSeedsOfOthers = 50;

std::vector<std::unique_ptr<KernelRuns>>& Runs() {
  static auto* const runs = new auto(AllKernelRuns());
  return *runs;
}

std::filesystem::path SourceFolder() {
  const char* const folder = std::getenv("WARPFOLD_SOURCE");
  return folder == nullptr ? "." : folder;
}

std::string TextOf(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Which runs have a synchronisation, of all that there are.
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

// "| `ticket.cuh` | barrier 2 |": the second one in the file. Lines move more often.
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

// Barriers that no result depends on. What a Fold leaves in shared memory counts in cell 0 only, which thread
// 0 reads, and is the next one to write. The other warps of a WarpFolder read cells, too, but do so in vain:
// warp 0 writes the nodes, and its lanes have met by then.
constexpr const char* kWithoutEffect[] = {"| `fold.cuh` | barrier 1 |", "| `fold.cuh` | barrier 5 |",
                                          "| `fold.cuh` | barrier 6 |"};

// Whose synchronisation must be reached and found: the textbook's files, and of the production kernels those
// that fold scalars.
std::vector<std::filesystem::path> Files() {
  const std::filesystem::path kernels = SourceFolder() / "kernels/cuda";
  std::vector<std::filesystem::path> files = {kernels / "ticket.cuh", kernels / "fold.cuh",
                                              kernels / "reduce_kernel.cuh",
                                              kernels / "leaf/ordered_leaves.cuh"};
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() / "kernels/cuda/textbook")) {
    if (entry.path().extension() == ".cuh") files.push_back(entry.path());
  }
  return files;
}

TEST(MutantsTest, WithAllSynchronisationNothingIsFound) {
  const std::uint64_t seeds = SmallScale() ? 4 : 40;
  for (const auto& runs : Runs()) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
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

TEST(MutantsTest, EachIsFound) {
  const std::string page = TextOf(SourceFolder() / "docs/simt.md");
  std::set<std::string> names;
  for (const std::filesystem::path& file : Files()) names.insert(file.filename().string());
  for (const auto& [site, all] : Reached()) {
    std::string how;
    std::string found;
    const std::string row = RowOf(site);
    const bool is_required = names.contains(site.file) && std::ranges::count(kWithoutEffect, row) == 0;
    const std::uint64_t seeds = is_required ? kSeeds : kSeedsOfOthers;
    for (std::uint64_t seed = 1; seed <= seeds && found.empty(); ++seed) {
      for (KernelRuns* runs : all) {
        how = runs->Run(seed, &site);
        if (how.empty()) continue;
        found = absl::StrCat(" ", runs->name(), " | ", seed, " | ", how);
        break;
      }
    }
    std::printf("%s%s |\n", row.c_str(), found.empty() ? " nobody" : found.c_str());
    std::fflush(stdout);
    if (!is_required) continue;
    EXPECT_FALSE(found.empty()) << row;
    EXPECT_THAT(page, testing::HasSubstr(row));
  }
}

}  // namespace
}  // namespace warpfold::kernels::simt
