# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes, rendered by kubectl: the objects are valid for Kubernetes' schemas, and fit together.

Runs in the environment that deploy/tools_environment.sh makes. Environment: WARPFOLD_SERVER, WARPFOLD_CLI.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import kubernetes_validate
import yaml

import flags

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_KUBERNETES = _ROOT / "deploy/kubernetes"
_OVERLAYS = ("cpu", "gpu", "mtls")
# The newest version whose schemas exist, and the oldest that has all that the manifests use (preStop.sleep).
_VERSIONS = ("1.37", "1.30")
_LABELS = {"app.kubernetes.io/name": "warpfold"}
_KINDS = {"Namespace", "ServiceAccount", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy",
          "HorizontalPodAutoscaler", "ServiceMonitor"}


def render(folder: pathlib.Path) -> dict[str, dict]:
    """The objects by kind."""
    kubectl = pathlib.Path(sys.prefix) / "bin/kubectl"
    text = subprocess.run([kubectl, "kustomize", str(folder)], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def restriction_complaints(pod: dict) -> list[str]:
    """The parts of a pod's specification that the Pod Security Standards' profile "restricted" would
    reject."""
    complaints = [f"{field} is set" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    security = pod.get("securityContext", {})
    if not security.get("runAsNonRoot") or not security.get("runAsUser"):
        complaints.append("runs as root")
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        complaints.append("no seccomp profile")
    allowed = {"configMap", "emptyDir", "secret", "projected"}
    complaints += [f"volume {volume['name']}" for volume in pod.get("volumes", [])
                   if not allowed & set(volume)]
    for container in pod["containers"]:
        security = container.get("securityContext", {})
        if security.get("allowPrivilegeEscalation") is not False:
            complaints.append("may gain privileges")
        if security.get("capabilities") != {"drop": ["ALL"]}:
            complaints.append("keeps capabilities")
        if security.get("readOnlyRootFilesystem") is not True:  # beyond the profile
            complaints.append("may write to its root")
        if any("hostPort" in port for port in container.get("ports", [])):
            complaints.append("takes a port of the host")
    return complaints


class ManifestsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.rendered = {overlay: render(_KUBERNETES / "overlays" / overlay) for overlay in _OVERLAYS}

    def container(self, overlay: str) -> dict:
        (container,) = self.rendered[overlay]["Deployment"]["spec"]["template"]["spec"]["containers"]
        return container

    def test_schemas(self):
        for overlay, objects in self.rendered.items():
            self.assertEqual(set(objects), _KINDS | ({"ConfigMap"} if overlay == "mtls" else set()))
            for kind, document in objects.items():
                if kind == "ServiceMonitor":  # the operator's; see test_names_meet
                    continue
                for version in _VERSIONS:
                    kubernetes_validate.validate(document, version, strict=True)

    def test_memory_is_what_a_server_may_take(self):
        """memory_budget_test computes the budgets that these limits must allow."""
        for overlay, memory in (("cpu", ("1Gi", "4Gi")), ("gpu", ("2Gi", "6Gi")), ("mtls", ("2Gi", "6Gi"))):
            resources = self.container(overlay)["resources"]
            self.assertEqual((resources["requests"]["memory"], resources["limits"]["memory"]), memory)

    def test_a_wrong_field_is_found(self):
        wrong = render(_KUBERNETES / "overlays/cpu")["Deployment"]
        wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, _VERSIONS[0], strict=True)

    def test_restricted(self):
        for _, objects in self.rendered.items():
            labels = objects["Namespace"]["metadata"]["labels"]
            self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")
            pod = objects["Deployment"]["spec"]["template"]["spec"]
            self.assertEqual(restriction_complaints(pod), [])
            self.assertIs(pod["automountServiceAccountToken"], False)

    def test_restrictions_are_missed(self):
        self.assertEqual(len(restriction_complaints({"hostNetwork": True, "containers": [{}],
                                                     "volumes": [{"name": "a", "hostPath": {}}]})), 7)

    def test_selectors(self):
        for _, objects in self.rendered.items():
            self.assertEqual(objects["Deployment"]["spec"]["template"]["metadata"]["labels"], _LABELS)
            for selector in (objects["Deployment"]["spec"]["selector"]["matchLabels"],
                             objects["Service"]["spec"]["selector"],
                             objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                             objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"],
                             objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]):
                self.assertEqual(selector, _LABELS)
            self.assertEqual(objects["Service"]["metadata"]["labels"], _LABELS)

    def test_who_may_connect(self):
        """Calls may come only from pods with the label that docs/operating.md names."""
        for _, objects in self.rendered.items():
            calls, metrics = objects["NetworkPolicy"]["spec"]["ingress"]
            self.assertEqual(calls["from"], [{"namespaceSelector": {},
                                              "podSelector": {"matchLabels": {"warpfold-client": "true"}}}])
            self.assertEqual(metrics["from"], [{"namespaceSelector": {"matchLabels": {
                "kubernetes.io/metadata.name": "monitoring"}}}])

    def test_names_meet(self):
        for _, objects in self.rendered.items():
            namespaces = {document["metadata"].get("namespace") for kind, document in objects.items()
                          if kind != "Namespace"}
            self.assertEqual(namespaces, {objects["Namespace"]["metadata"]["name"]})
            pod = objects["Deployment"]["spec"]["template"]["spec"]
            self.assertEqual(pod["serviceAccountName"], objects["ServiceAccount"]["metadata"]["name"])
            ports = {port["name"] for port in pod["containers"][0]["ports"]}
            self.assertEqual(objects["Service"]["spec"]["clusterIP"], "None")
            service = objects["Service"]["spec"]["ports"]
            self.assertEqual({port["targetPort"] for port in service}, ports)
            (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
            self.assertIn(endpoint["port"], {port["name"] for port in service})
            allowed = {port["port"] for rule in objects["NetworkPolicy"]["spec"]["ingress"]
                       for port in rule["ports"]}
            self.assertEqual(allowed, ports)
            scaled = objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
            self.assertEqual(scaled, objects["Deployment"]["metadata"]["name"])

    def test_probes_ask_the_grpc_server(self):
        for overlay in _OVERLAYS:
            for probe in ("startupProbe", "readinessProbe"):
                how = self.container(overlay)[probe]
                # The kubelet's gRPC probes have no TLS.
                self.assertEqual("grpc" in how, overlay != "mtls")
                self.assertEqual("exec" in how, overlay == "mtls")
                self.assertNotIn("httpGet", how)

    def test_clients_who_have_all_connections_do_not_have_the_server_restarted(self):
        for overlay in _OVERLAYS:
            container = self.container(overlay)
            self.assertEqual(container["livenessProbe"]["httpGet"], {"path": "/healthz", "port": "admin"})
            self.assertIn("admin", [port["name"] for port in container["ports"]])

    def test_probes_by_a_socket(self):
        """The probes' command finds the address among the flags, without a certificate."""
        container = self.container("mtls")
        (address,) = (a for a in container["args"] if a.startswith("--listen="))
        (folder,) = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "run")
        with tempfile.TemporaryDirectory(prefix="warpfold_probes_") as here:
            server = subprocess.Popen(
                [os.environ["WARPFOLD_SERVER"], "--listen=127.0.0.1:0", address.replace(folder, here),
                 "--device=cpu"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                self.assertIn("READY", server.stdout.readline())
                for probe in ("startupProbe", "readinessProbe"):
                    executable, *arguments = container[probe]["exec"]["command"]
                    self.assertEqual(executable, "/usr/local/bin/warpfold")
                    command = [os.environ["WARPFOLD_CLI"], *(a.replace(folder, here) for a in arguments)]
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    self.assertEqual(done.stdout, "SERVING\n")
            finally:
                server.terminate()
                server.wait()
                server.stdout.close()

    def test_plaintext_is_announced_where_it_is(self):
        for overlay, objects in self.rendered.items():
            grpc, admin = objects["Service"]["spec"]["ports"]
            self.assertEqual(grpc.get("appProtocol"), None if overlay == "mtls" else "kubernetes.io/h2c")
            self.assertNotIn("appProtocol", admin)

    def test_pods_are_spread(self):
        for _, objects in self.rendered.items():
            spread = objects["Deployment"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
            self.assertEqual([constraint["topologyKey"] for constraint in spread],
                             ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
            for constraint in spread:
                self.assertEqual(constraint["labelSelector"]["matchLabels"], _LABELS)
                # A single node takes them all.
                self.assertEqual(constraint["whenUnsatisfiable"], "ScheduleAnyway")

    def test_the_drain_has_its_time(self):
        for overlay, objects in self.rendered.items():
            arguments = dict(a.partition("=")[::2] for a in self.container(overlay)["args"])
            pause = self.container(overlay)["lifecycle"]["preStop"]["sleep"]["seconds"]
            grace = objects["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
            self.assertGreater(grace, pause + int(arguments["--drain_seconds"]))

    def test_flags(self):
        for overlay, _ in self.rendered.items():
            for argument in self.container(overlay)["args"]:
                self.assertIn(argument.partition("=")[0], flags.server())

    def test_plaintext_is_asked_for(self):
        for overlay, objects in self.rendered.items():
            self.assertEqual("--allow_insecure" in self.container(overlay)["args"], overlay != "mtls")
            self.assertIn("NetworkPolicy", objects)

    def test_devices(self):
        self.assertIn("--device=cpu", self.container("cpu")["args"])
        self.assertNotIn("nvidia.com/gpu", self.container("cpu")["resources"]["limits"])
        for overlay in ("gpu", "mtls"):
            self.assertIn("--device=cuda:0", self.container(overlay)["args"])
            self.assertEqual(self.container(overlay)["resources"]["limits"]["nvidia.com/gpu"], 1)

    def test_certificates_change_in_place(self):
        container = self.container("mtls")
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "tls")
        self.assertNotIn("subPath", mount)
        names = {argument.partition("=")[2] for argument in container["args"] if "--tls_" in argument}
        self.assertEqual(names, {f"{mount['mountPath']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")})
        self.assertEqual([a for a in self.container("gpu")["args"] if "--tls_" in a], [])

    def test_the_list_of_callers_is_one_that_the_server_takes(self):
        container = self.container("mtls")
        (flag,) = (argument for argument in container["args"] if argument.startswith("--allow="))
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "allow")
        self.assertNotIn("subPath", mount)  # otherwise a change would not be seen
        pod = self.rendered["mtls"]["Deployment"]["spec"]["template"]["spec"]
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "allow")
        lists = self.rendered["mtls"]["ConfigMap"]
        self.assertEqual(lists["metadata"]["name"], volume["configMap"]["name"])
        with tempfile.TemporaryDirectory(prefix="warpfold_allow_") as here:
            for name, text in lists["data"].items():
                pathlib.Path(here, name).write_text(text, encoding="ascii")
            server = subprocess.Popen(
                [os.environ["WARPFOLD_SERVER"], "--listen=127.0.0.1:0", "--device=cpu",
                 flag.replace(mount["mountPath"], here)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                self.assertIn("READY", server.stdout.readline())
            finally:
                server.terminate()
                server.wait()
                server.stdout.close()

    def test_what_the_autoscaler_asks_for_is_made(self):
        rules = yaml.safe_load((_KUBERNETES / "prometheus-adapter.yaml").read_text())["rules"]
        metrics = self.rendered["cpu"]["HorizontalPodAutoscaler"]["spec"]["metrics"]
        self.assertEqual([rule["name"]["as"] for rule in rules],
                         [metric["pods"]["metric"]["name"] for metric in metrics])
        # The metrics must also be those that the server has.
        names = set(re.findall(r"warpfold_\w+", "".join(r["metricsQuery"] + r["seriesQuery"] for r in rules)))
        sources = "".join(path.read_text() for path in (_ROOT / "server").rglob("*.cc"))
        self.assertGreater(len(names), 2)
        for name in names:
            self.assertIn(f'"{re.sub("_(sum|count)$", "", name)}"', sources)

    @unittest.skipUnless(shutil.which("promtool"), "needs promtool, of Debian's package prometheus")
    def test_load_moves_what_the_autoscaler_asks_for(self):
        """For a pod whose places are all taken and whose reductions wait 0.1 s each, and for an idle one."""
        stage = "warpfold_stage_duration_seconds"
        values = {"busy": {"warpfold_reductions_in_progress{%s}": "8x10",
                           "warpfold_reductions_limit{%s}": "8x10",
                           stage + '_sum{%s,stage="queue"}': "0+6x10",
                           stage + '_count{%s,stage="queue"}': "0+60x10"},
                  "idle": {"warpfold_reductions_in_progress{%s}": "0x10",
                           "warpfold_reductions_limit{%s}": "8x10",
                           stage + '_sum{%s,stage="queue"}': "0x10",
                           stage + '_count{%s,stage="queue"}': "0+60x10"}}
        series = [{"series": name % f'namespace="n",pod="{pod}"', "values": text}
                  for pod, of_pod in values.items() for name, text in of_pod.items()]
        expected = {"warpfold_queue_seconds": {"busy": 0.1, "idle": 0},
                    "warpfold_places_taken": {"busy": 1, "idle": 0}}
        tests = []
        for rule in yaml.safe_load((_KUBERNETES / "prometheus-adapter.yaml").read_text())["rules"]:
            query = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="n"')
            query = query.replace("<<.GroupBy>>", "pod")
            tests.append({"expr": query, "eval_time": "8m", "exp_samples": [
                {"labels": f'{{pod="{pod}"}}', "value": value}
                for pod, value in expected[rule["name"]["as"]].items()]})
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tests.yml")
            file.write_text(yaml.safe_dump({"tests": [{
                "interval": "1m", "promql_expr_test": tests, "input_series": series}]}))
            done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True,
                                  timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
