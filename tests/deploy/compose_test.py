# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""deploy/compose.yaml: its parts fit together, and Prometheus' own tool accepts its configuration.

Runs in the environment that deploy/tools_environment.sh makes. Environment: WARPFOLD_SERVER.
"""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import yaml

import flags

_DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


class ComposeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.file = yaml.safe_load((_DEPLOY / "compose.yaml").read_text())
        cls.server = cls.file["services"]["warpfold"]
        cls.prometheus = yaml.safe_load(cls.file["configs"]["prometheus"]["content"])

    def test_flags(self):
        for argument in self.server["command"]:
            self.assertIn(argument.partition("=")[0], flags.server())

    def test_confinement(self):
        self.assertIs(self.server["read_only"], True)
        self.assertEqual(self.server["cap_drop"], ["ALL"])
        self.assertIn("no-new-privileges:true", self.server["security_opt"])
        for service in self.file["services"].values():
            for port in service["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_a_wrong_flag_does_not_restart_for_ever(self):
        self.assertRegex(self.server["restart"], r"^on-failure:[1-9]$")

    def test_plaintext_is_asked_for(self):
        # The image listens on every address of its network, and refuses to do so without keys or this flag.
        self.assertNotEqual("--allow_insecure" in self.server["command"],
                            any(a.startswith("--tls_cert") for a in self.server["command"]))

    def test_prometheus_finds_the_server(self):
        (job,) = self.prometheus["scrape_configs"]
        (admin,) = (a.partition("=")[2] for a in self.server["command"] if a.startswith("--admin_listen="))
        self.assertEqual(job["job_name"], "warpfold")
        self.assertEqual(job["static_configs"], [{"targets": [f"warpfold:{admin.rpartition(':')[2]}"]}])
        mounted = {entry["source"]: entry["target"] for entry in
                   self.file["services"]["prometheus"]["configs"]}
        self.assertEqual(set(mounted), set(self.file["configs"]))
        (rules,) = self.prometheus["rule_files"]
        self.assertEqual(mounted["rules"], f"/etc/prometheus/{rules}")

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_prometheus_takes_its_configuration(self):
        rules = _DEPLOY / self.file["configs"]["rules"]["file"]
        with tempfile.TemporaryDirectory(prefix="warpfold_compose_") as folder:
            content = self.file["configs"]["prometheus"]["content"]
            (pathlib.Path(folder) / "prometheus.yml").write_text(content)
            shutil.copy(rules, folder)
            done = subprocess.run(["promtool", "check", "config", f"{folder}/prometheus.yml"], check=False,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
