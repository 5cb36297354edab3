// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation/segment_scripts.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "tests/server/drive_segments.h"

namespace warpfold::server {
namespace {

// Has the values written to the client's memory, if they fit.
void WantColumns(std::uint64_t identity, const KeptArrays& kept, std::size_t columns, SegmentedArray& array,
                 Script& script) {
  const std::size_t count = columns * array.lengths.size();
  if (count > kept.results_memory[identity].size()) return;
  const std::span<std::uint64_t> memory = kept.results_memory[identity].first(count);
  std::ranges::fill(memory, 0xabababab);
  array.header.set_expected_segment_count(array.lengths.size());
  array.header.mutable_results_reference()->set_token(kept.results[identity]);
  script.columns = memory;
  script.has_columns = true;
}

// Some are longer than a slot, some are empty.
SegmentedArray RandomSegments(Random& random, std::uint64_t identity, bool floats) {
  SegmentedArray array;
  *array.header.mutable_spec() = SpecOf(floats, identity);
  const std::size_t elements = RandomSize(random);
  const bool is_even = OneIn(random, 2);
  // So few that their results take no more messages than a world has rounds.
  const std::size_t length = 4 + Below(random, OneIn(random, 2) ? 20 : elements);
  for (std::size_t left = elements; left > 0;) {
    const std::size_t next = is_even ? length : std::min(left, Below(random, 2 * length));
    if (next > left) break;
    array.lengths.push_back(next);
    left -= next;
  }
  const auto data =
      ArrayData(floats, std::accumulate(array.lengths.begin(), array.lengths.end(), std::size_t{0}));
  array.data.assign(reinterpret_cast<const char*>(data.data()), data.size());
  if (is_even) array.header.set_segment_length(length);
  return array;
}

}  // namespace

Script KeptSegmentsScript(Random& random, std::uint64_t identity, const KeptArrays& kept) {
  Script script;
  script.method = "/warpfold.v1.SegmentService/ReduceSegments";
  const bool floats = OneIn(random, 2);
  SegmentedArray array = RandomSegments(random, identity, floats);
  script.rows = array.Expected().rows;
  array.header.set_expected_segment_count(array.lengths.size());
  array.header.mutable_reference()->set_token(floats ? kept.floats : kept.ints);
  array.header.mutable_reference()->set_element_count(array.element_count());
  if (!script.rows.empty() && OneIn(random, 2)) {
    WantColumns(identity, kept, script.rows.front().size(), array, script);
  }
  v1::ReduceSegmentsRequest request;
  *request.mutable_header() = array.header;
  script.lines.push_back({request.SerializeAsString()});
  if (!array.header.has_segment_length() && !array.lengths.empty()) {
    const std::size_t bytes = array.lengths.size() * sizeof(std::uint64_t);
    request.mutable_lengths()->set_lengths(array.lengths.data(), bytes);
    script.lines.push_back({request.SerializeAsString(), true, bytes});
  }
  return script;
}

Script SegmentsScript(Random& random, std::uint64_t identity, const KeptArrays& kept) {
  Script script;
  script.method = "/warpfold.v1.SegmentService/ReduceSegments";
  SegmentedArray array = RandomSegments(random, identity, OneIn(random, 2));
  std::vector<std::size_t> cuts(Below(random, 5));
  for (std::size_t& cut : cuts) cut = Below(random, array.data.size() + 1);
  std::sort(cuts.begin(), cuts.end());
  script.rows = array.Expected().rows;
  if (!script.rows.empty() && OneIn(random, 2)) {
    WantColumns(identity, kept, script.rows.front().size(), array, script);
  }
  std::vector<v1::ReduceSegmentsRequest> requests =
      array.Requests(cuts, std::max<std::size_t>(array.lengths.size() / 4, 1));
  const std::size_t fault = Below(random, 8);
  if (fault == 0) {
    v1::SegmentsCommit& commit = *requests.back().mutable_commit();
    commit.set_segment_count(commit.segment_count() + 1);
    script.reason = "COUNT_MISMATCH";
  } else if (fault == 1) {
    requests.pop_back();
    script.reason = "NO_COMMIT";
  } else if (fault == 2) {
    script.takes = Below(random, 4);
  }
  for (const v1::ReduceSegmentsRequest& request : requests) {
    const std::size_t bytes = request.chunk().data().size() + request.lengths().lengths().size();
    const bool is_piece = request.has_chunk() || request.has_lengths();
    script.lines.push_back({request.SerializeAsString(), !is_piece || bytes > 0, bytes});
  }
  return script;
}

}  // namespace warpfold::server
