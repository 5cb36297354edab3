# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a server; our alerts and our dashboard ask it for series that exist.

The server is warpfold-server over a fake device that reports memory, temperature and errors, so that all
metrics are there (WARPFOLD_FAULTING_SERVER).
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import unittest
import unittest.mock
import urllib.parse

from executables import Server, TestCase, warpfold
from http_pages import get, get_json, names, wait_until
from keys import allow_all, make_keys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_RULES = _ROOT / "deploy/prometheus/warpfold.rules.yml"
_DASHBOARD = _ROOT / "deploy/grafana/warpfold.json"
_RUNBOOK = _ROOT / "docs/runbook.md"
_PAGE = _ROOT / "docs/observability.md"
_ALERTS = re.findall(r"- alert: (\w+)", _RULES.read_text())


def _metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:warpfold|process)_\w+|\bup\b", expression))


def _dashboard_expressions() -> list[str]:
    board = json.loads(_DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m")
            yield expression.replace("$job", "warpfold").replace("$instance", ".*")


@contextlib.contextmanager
def prometheus(folder: pathlib.Path, target: str):
    """A Prometheus that scrapes the target each second; its address."""
    config = folder / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{_RULES}']\n"
                      "scrape_configs:\n"
                      f"  - {{job_name: warpfold, static_configs: [{{targets: ['{target}']}}]}}\n")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
         "--web.listen-address=127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        address = next(filter(None, (re.search(r'msg="Listening on" address=(\S+)', line)
                                     for line in process.stderr)))[1]
        reader = threading.Thread(target=process.stderr.read)  # otherwise it would be held up
        reader.start()
        wait_until(lambda: get(address, "/-/ready")[0] == 200, "Prometheus")
        yield address
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stderr.close()


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("openssl"), "needs prometheus and openssl")
class ScrapeTest(TestCase):
    def query(self, address: str, expression: str) -> list:
        answer = get_json(address, "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        self.assertEqual(answer["status"], "success", expression)
        return answer["data"]["result"]

    def test_what_we_ship_asks_for_what_there_is(self):
        cert, key = make_keys(str(self.folder), "server")
        self.enterContext(unittest.mock.patch.dict(
            os.environ, WARPFOLD_SERVER=os.environ["WARPFOLD_FAULTING_SERVER"]))
        flags = (f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={cert}",
                 allow_all(str(self.folder)), "--admin_listen=127.0.0.1:0")
        with Server(*flags, device="cpu") as server:
            admin = re.search(r" admin=(\S+)", server.ready_line)[1]
            trust = ("--target", server.address, "--tls_ca", cert, "--tls_cert", cert, "--tls_key", key)
            warpfold("reduce", *trust, "--op", "sum", "--iota", "100000")
            warpfold("reduce", *trust, "--op", "matrix_product", "--iota", "1000")
            wait_until(lambda: "warpfold_device_" in get(admin, "/metrics")[1], "the device's state")
            page = get(admin, "/metrics")[1]
            there = names(page) | {"up"}
            documented = re.findall(r"^\| `((?:warpfold|process)_\w+)` \|.*\| (.+) \|$", _PAGE.read_text(),
                                    re.MULTILINE)
            self.assertEqual(documented, re.findall(r"^# HELP (\w+) (.+)", page, re.MULTILINE))
            self.assertEqual([name for name, _ in documented],
                             re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
            with prometheus(self.folder, admin) as address:
                wait_until(lambda: self.query(address, "up == 1"), "a scrape")
                self.assertTrue(self.query(address, 'warpfold_results_total{operator="sum",code="OK"} == 1'))
                for expression in _dashboard_expressions():
                    self.query(address, expression)
                    for metric in _metrics_in(expression):
                        with self.subTest(panel=expression):
                            self.assertTrue(self.query(address, f"count({metric})"), metric)
                rules = get_json(address, "/api/v1/rules")["data"]["groups"][0]["rules"]
                self.assertEqual([rule["name"] for rule in rules], _ALERTS)
                for rule in rules:
                    with self.subTest(alert=rule["name"]):
                        self.assertLessEqual(_metrics_in(rule["query"]), there)


class ShippedFilesTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("promtool"), "needs promtool")
    def test_each_alert_fires_as_it_should(self):
        tests = pathlib.Path(__file__).with_name("alerts.test.yml")
        for command in (("check", "rules", str(_RULES)), ("test", "rules", str(tests))):
            done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(re.findall(r"^    name: (\w+)", tests.read_text(), re.MULTILINE), _ALERTS)

    def test_each_alert_has_its_place_in_the_runbook(self):
        sections = dict(zip(re.findall(r"^## (\w+)$", text := _RUNBOOK.read_text(), re.MULTILINE),
                            re.split(r"^## \w+$", text, flags=re.MULTILINE)[1:]))
        self.assertEqual(list(sections), _ALERTS)
        for alert, section in sections.items():
            for part in ("- **Meaning**: ", "- **Look at**: ", "- **Do**: "):
                self.assertIn(part, section, alert)
            self.assertIn(f"runbook_url: docs/runbook.md#{alert.lower()}\n", _RULES.read_text())

    def test_what_the_runbook_names_exists(self):
        flags = set(re.findall(r"`(--\w+)`", _RUNBOOK.read_text()))
        known = subprocess.run([os.environ["WARPFOLD_SERVER"], "--help"], capture_output=True, text=True,
                               check=True, timeout=60).stdout
        self.assertTrue(flags)
        for flag in flags:
            self.assertIn(flag, known)


if __name__ == "__main__":
    unittest.main()
