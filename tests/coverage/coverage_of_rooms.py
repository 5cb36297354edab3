# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What coverage.sh prints of gcovr's report: the share of lines that ran, by room; and the lines that did
not.

coverage_of_rooms.py REPORT MISSED
"""

import collections
import json
import pathlib
import sys


def main() -> None:
    report = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    ran: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    missed = []
    for file in report["files"]:
        counts: dict[int, int] = collections.Counter()
        for line in file["lines"]:
            if not line["gcovr/noncode"]:
                counts[line["line_number"]] += line["count"]
        for room in (file["file"].split("/")[0], "all"):
            ran[room][0] += sum(count > 0 for count in counts.values())
            ran[room][1] += len(counts)
        numbers = [number for number, count in sorted(counts.items()) if count == 0]
        if numbers:
            missed.append((len(numbers), f"{file['file']}: {len(numbers)} of {len(counts)}: "
                                         f"{' '.join(map(str, numbers))}"))
    pathlib.Path(sys.argv[2]).write_text("".join(f"{text}\n" for _, text in sorted(missed, reverse=True)),
                                         encoding="utf-8")
    print(json.dumps({room: {"lines": lines, "ran": count, "percent": round(100 * count / lines, 1)}
                      for room, (count, lines) in sorted(ran.items())}))


if __name__ == "__main__":
    main()
