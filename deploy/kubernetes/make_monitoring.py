#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""make_monitoring.py FOLDER: writes there the copies of alerts and dashboard for components/monitoring.

Kustomize reads no file outside its folder, so these are copies, wrapped in Kubernetes objects. A test
(tests/deploy/manifests_test.py) makes them once more and compares. After a change of either file:

  deploy/kubernetes/make_monitoring.py deploy/kubernetes/components/monitoring
"""

import pathlib
import sys
import textwrap

_DEPLOY = pathlib.Path(__file__).resolve().parents[1]
_HEAD = """\
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# deploy/kubernetes/make_monitoring.py generates this file from {source}:
# change that file, not this one.
apiVersion: {api}
kind: {kind}
metadata:
  name: {name}
  namespace: warpfold
  labels:
    app.kubernetes.io/name: warpfold
"""


def prometheus_rule() -> str:
    text = (_DEPLOY / "prometheus/warpfold.rules.yml").read_text(encoding="utf-8")
    groups = text[text.index("groups:\n"):]
    head = _HEAD.format(source="deploy/prometheus/warpfold.rules.yml", api="monitoring.coreos.com/v1",
                        kind="PrometheusRule", name="warpfold")
    return f"{head}spec:\n{textwrap.indent(groups, '  ')}"


def dashboard() -> str:
    text = (_DEPLOY / "grafana/warpfold.json").read_text(encoding="utf-8")
    head = _HEAD.format(source="deploy/grafana/warpfold.json", api="v1", kind="ConfigMap",
                        name="warpfold-dashboard")
    return f'{head}    grafana_dashboard: "1"\ndata:\n  warpfold.json: |\n{textwrap.indent(text, "    ")}'


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_monitoring.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    (folder / "prometheus-rule.yaml").write_text(prometheus_rule(), encoding="utf-8")
    (folder / "dashboard.yaml").write_text(dashboard(), encoding="utf-8")


if __name__ == "__main__":
    main()
