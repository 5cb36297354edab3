# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Pages over HTTP, read without proxies, and the samples of a page of metrics."""

import json
import re
import time
import urllib.error
import urllib.request

_TIMEOUT_S = 60
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(address: str, path: str) -> tuple[int, str]:
    """The status and the text of a page."""
    try:
        with _opener.open(f"http://{address}{path}", timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def get_json(address: str, path: str) -> dict:
    status, text = get(address, path)
    if status != 200:
        raise RuntimeError(f"{path}: {status} {text}")
    return json.loads(text)


def samples(page: str) -> dict[str, float]:
    """The value of each series, by its name and labels as they stand on the page."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in page.splitlines() if line and not line.startswith("#")}


def metric(ready_line: str, series: str) -> float:
    """The value of a series of the server that printed the line."""
    admin = re.search(r" admin=(\S+) device=", ready_line)[1]
    return samples(get(admin, "/metrics")[1])[series]


def names(page: str) -> set[str]:
    return {re.match(r"\w+", series)[0] for series in samples(page)}


def wait_until(condition, what: str):
    """What `condition` returns, once that is true."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited in vain for {what}")
        time.sleep(0.05)
    return result
