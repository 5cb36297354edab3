# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes to standard output the copyright notices and licences of the parts of a build's executables, or of
the libraries that a wheel brings along.

  notices.py BUILD
  notices.py --wheel FOLDER

BUILD is the same as for sbom.py, and so are the parts that count as linked into the executables. FOLDER is an
unpacked wheel, into which auditwheel has copied this machine's libraries. Debian's packages have their
notices in /usr/share/doc, which only names licences that many packages have: their texts follow at the end.
"""

import pathlib
import re
import sys

import sbom

_DOCUMENTS = pathlib.Path("/usr/share/doc")
_LICENCES = pathlib.Path("/usr/share/common-licenses")
_LINE = "=" * 100 + "\n"


def section(title: str, text: str) -> str:
    return f"{_LINE}{title}\n{_LINE}\n{text.strip()}\n\n"


def of_build(build: str) -> set[str]:
    """The packages of which its executables contain parts."""
    return sbom.packages_of(sbom.archives(build) | sbom.headers(build))


def of_wheel(folder: str) -> set[str]:
    """The packages of its libraries; auditwheel puts a hash before the suffix of their names."""
    packages = set()
    for library in sorted(pathlib.Path(folder).glob("*.libs/*")):
        name = re.sub(r"-[0-9a-f]{8,}(?=\.so)", "", library.name)
        owners = sbom.packages_of({f"*/{name}"})
        if not owners:
            sys.exit(f"no package has {name}, and so nobody knows its licence")
        packages |= owners
    return packages


def notices(what: str, packages: set[str]) -> str:
    packages_of = {}  # by the text that they share
    for name in sorted({fields["Package"].partition(":")[0] for fields in sbom.installed(packages)}):
        text = (_DOCUMENTS / name / "copyright").read_text(encoding="utf-8", errors="replace")
        packages_of.setdefault(text, []).append(name)
    out = f"{what} of these packages, under the terms that follow.\n\n"
    out += "".join(section(", ".join(names), text) for text, names in packages_of.items())
    named = set(re.findall(rf"{_LICENCES}/([A-Za-z0-9.-]*[A-Za-z0-9])", out))
    return out + "".join(section(str(_LICENCES / name), (_LICENCES / name).read_text(encoding="utf-8"))
                         for name in sorted(named) if (_LICENCES / name).is_file())


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--wheel":
        sys.stdout.write(notices("The wheel contains libraries", of_wheel(sys.argv[2])))
    elif len(sys.argv) == 2:
        sys.stdout.write(notices("Warpfold's executables contain parts", of_build(sys.argv[1])))
    else:
        sys.exit(__doc__)
