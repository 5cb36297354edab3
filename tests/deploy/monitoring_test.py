# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The dashboard's variables and units, and what Kubernetes gets from it and from the alerts.

Runs in the environment that deploy/tools_environment.sh makes. tests/e2e/prometheus_test.py tests that the
metrics exist and the alerts fire. Environment: WARPFOLD_SERVER, WARPFOLD_CLI.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import kubernetes_validate
import yaml

from manifests_test import render

_DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
_KUBERNETES = _DEPLOY / "kubernetes"
_COMPONENT = _KUBERNETES / "components/monitoring"
_RULES = _DEPLOY / "prometheus/warpfold.rules.yml"
_DASHBOARD = _DEPLOY / "grafana/warpfold.json"
# How an expression ends, and Grafana's units for its value. The first that fits counts.
_UNITS = (
    (r"_timestamp_seconds\b.* - time\(\)", {"s"}),
    (r"rate\(\w+_cpu_seconds_total\b", {"short"}),  # cores
    (r"rate\(\w+_seconds_bucket\b", {"s"}),
    (r"rate\(\w+_bytes_total\b", {"Bps"}),
    (r"rate\(\w+_total\b", {"reqps", "ops", "cps"}),
    (r"increase\(\w+_total\b", {"short"}),
    (r"\w_bytes\{", {"bytes"}),
    (r"\w_celsius\{", {"celsius"}),
    (r"\w_watts\{", {"watt"}),
    (r"\w_seconds\{", {"s"}),
    (r"", {"short"}),
)


def units(expression: str) -> set[str]:
    return next(names for pattern, names in _UNITS if re.search(pattern, expression))


class DashboardTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.board = json.loads(_DASHBOARD.read_text(encoding="utf-8"))

    def expressions(self) -> list[str]:
        return [target["expr"] for panel in self.board["panels"] for target in panel["targets"]]

    def test_a_unit_fits_all_that_a_panel_draws(self):
        for panel in self.board["panels"]:
            for target in panel["targets"]:
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], units(target["expr"]),
                              f"{panel['title']}: {target['expr']}")

    def test_nobody_elses_processes_are_drawn(self):
        for expression in self.expressions():
            selectors = re.findall(r"\b(?:warpfold|process)_\w+(\{[^}]*\}|)", expression)
            self.assertTrue(selectors, expression)
            for selector in selectors:
                self.assertTrue(selector.startswith('{job=~"$job",instance=~"$instance"'), expression)
        variables = {variable["name"]: variable for variable in self.board["templating"]["list"]}
        for name in ("job", "instance"):
            # Without its own value, All means all values of the query: those that serve our metrics.
            self.assertNotIn("allValue", variables[name])
            self.assertIn("warpfold_ready", variables[name]["query"])

    def test_panels_do_not_overlap(self):
        cells = [(panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y) for panel in self.board["panels"]
                 for x in range(panel["gridPos"]["w"]) for y in range(panel["gridPos"]["h"])]
        self.assertEqual(len(cells), len(set(cells)))
        self.assertLess(max(x for x, _ in cells), 24)
        names = [panel["id"] for panel in self.board["panels"]]
        self.assertEqual(len(names), len(set(names)))


class ComponentTest(unittest.TestCase):
    """deploy/kubernetes/components/monitoring."""

    def test_made_of_the_shipped_files(self):
        with tempfile.TemporaryDirectory(prefix="warpfold_monitoring_") as folder:
            subprocess.run([sys.executable, "-B", _KUBERNETES / "make_monitoring.py", folder], check=True)
            made = {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(folder).iterdir()}
        self.assertEqual(set(made), {"prometheus-rule.yaml", "dashboard.yaml"})
        for name, text in made.items():
            self.assertEqual((_COMPONENT / name).read_text(encoding="utf-8"), text,
                             "Remedy: run deploy/kubernetes/make_monitoring.py as it says.")

    def test_rendered_in_an_overlay(self):
        with tempfile.TemporaryDirectory(prefix="warpfold_monitoring_") as folder:
            folder = os.path.realpath(folder)
            (pathlib.Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(
                {"resources": [os.path.relpath(_KUBERNETES / "overlays/gpu", folder)],
                 "components": [os.path.relpath(_COMPONENT, folder)]}))
            objects = render(pathlib.Path(folder))
        rule, board = objects["PrometheusRule"], objects["ConfigMap"]
        self.assertEqual(rule["spec"], yaml.safe_load(_RULES.read_text(encoding="utf-8")))
        self.assertEqual(board["data"], {"warpfold.json": _DASHBOARD.read_text(encoding="utf-8")})
        kubernetes_validate.validate(board, "1.30", strict=True)
        for made in (rule, board):
            self.assertEqual(made["metadata"]["namespace"], objects["Namespace"]["metadata"]["name"])
        # The operator calls a job by its Service, and the alerts know theirs by this name.
        self.assertEqual(objects["Service"]["metadata"]["name"], "warpfold")
        self.assertNotIn("jobLabel", objects["ServiceMonitor"]["spec"])


if __name__ == "__main__":
    unittest.main()
