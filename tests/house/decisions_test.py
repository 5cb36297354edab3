# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The index of decisions, docs/adr/README.md, names each record once, by its number and title."""

import collections
import pathlib
import re
import unittest

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/adr"
_REMEDY = " Remedy: name it there once, as [number. title](file)."


def complaints(index: str, records: dict[str, str]) -> list[str]:
    """`records` are the texts of all records, by the names of their files."""
    found = []
    entries = re.findall(r"^- \[(.+)\]\((.+)\)$", index, re.MULTILINE)
    named = collections.Counter(name for _, name in entries)
    titles = {}
    for name, text in records.items():
        heading = text.splitlines()[0].removeprefix("# ")
        titles[name] = heading
        if heading.split(". ")[0] != name[:4].lstrip("0"):
            found.append(f"{name} begins with {heading!r}. Remedy: its number is that of its file.")
        if named[name] != 1:
            found.append(f"README.md names {name} {named[name]} times.{_REMEDY}")
    for title, name in entries:
        if titles.get(name) != title:
            found.append(f"README.md has {title!r} for {name}, which is {titles.get(name)!r}.{_REMEDY}")
    numbers = collections.Counter(name[:4] for name in records)
    found += [f"{count} records have the number {number}. Remedy: take the next one that is free."
              for number, count in numbers.items() if count > 1]
    return found


class DecisionsTest(unittest.TestCase):

    def test_the_index_is_complete(self):
        records = {path.name: path.read_text(encoding="utf-8") for path in _FOLDER.glob("[0-9]*.md")}
        self.assertGreater(len(records), 50)
        self.assertEqual(complaints((_FOLDER / "README.md").read_text(encoding="utf-8"), records), [])


class RulesCatchBreakersTest(unittest.TestCase):

    def test_breakers(self):
        good = "- [7. Seven](0007-seven.md)\n"
        records = {"0007-seven.md": "# 7. Seven\n"}
        self.assertEqual(complaints(good, records), [])
        self.assertEqual(len(complaints("", records)), 1)
        self.assertEqual(len(complaints(good + good, records)), 1)
        self.assertEqual(len(complaints("- [7. Eight](0007-seven.md)\n", records)), 1)
        self.assertEqual(len(complaints(good + "- [8. Gone](0008-gone.md)\n", records)), 1)
        self.assertEqual(len(complaints(good, {"0007-seven.md": "# 8. Seven\n"})), 2)
        self.assertEqual(len(complaints(good + "- [7. Other](0007-other.md)\n",
                                        {**records, "0007-other.md": "# 7. Other\n"})), 1)


if __name__ == "__main__":
    unittest.main()
