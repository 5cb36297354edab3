#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What profile.sh printed, as one JSON object for each launch: the form in which results are kept.

    tests/gpu/profile_lines.py COMMIT < profile.csv > profile.jsonl

Percentages are of what the device could sustain for the whole launch; for warps, of those that fit.
"""

import csv
import json
import re
import sys

_KEYS = {
    "gpu__time_duration.sum": "ns",
    "dram__bytes_read.sum.pct_of_peak_sustained_elapsed": "dram_read_pct",
    "sm__inst_issued.avg.pct_of_peak_sustained_elapsed": "issued_pct",
    "smsp__inst_executed.sum": "instructions",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_elapsed": "alu_pct",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed": "fma_pct",
    "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_elapsed": "fp64_pct",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed": "xu_pct",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed": "shared_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_pct",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "stall_long_scoreboard",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "stall_barrier",
    "launch__registers_per_thread": "registers",
    "launch__grid_size": "grid",
    "launch__block_size": "block",
}


def main() -> None:
    launches = {}  # by process and number
    rows = csv.DictReader(line for line in sys.stdin if line.startswith('"'))
    for row in rows:
        if row["ID"] == "ID":  # the header of another run
            continue
        name = re.sub(r"^void ", "", row["Kernel Name"])
        kernel = name[:name.rindex("(")]  # without its parameters
        place = row["Process ID"], row["ID"]
        launch = launches.setdefault(place, {"kernel": kernel, "commit": sys.argv[1]})
        if key := _KEYS.get(row["Metric Name"]):
            launch[key] = json.loads(row["Metric Value"].replace(",", ""))
    for launch in launches.values():
        print(json.dumps(launch))


if __name__ == "__main__":
    main()
