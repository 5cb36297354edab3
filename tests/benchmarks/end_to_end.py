# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""End-to-end figures as JSON lines: `warpfold bench` against a server of its own, over TCP and a Unix socket.

    python3 end_to_end.py --bin DIR [--device cpu|cuda:N] [--commit HASH] [--date YYYY-MM-DD]
"""

import argparse
import json
import pathlib
import subprocess
import tempfile


def measure(binary: pathlib.Path, device: str, listen: str, streams: int) -> list:
    command = [binary / "warpfold-server", f"--listen={listen}", f"--device={device}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        ready = server.stdout.readline()
        address = ready.split()[1].removeprefix("listen=")
        command = [binary / "warpfold", "bench", "--json", "--target", address, "--streams", str(streams)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        lines = done.stdout.splitlines()
        transport = "unix" if listen.startswith("unix:") else "tcp"
        about = {"transport": transport, "streams": streams, "server": ready.split("device=")[1].strip()}
        return [{**json.loads(line), **about} for line in lines]
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--date", default="unknown")
    arguments = parser.parse_args()
    run = {"commit": arguments.commit, "date": arguments.date}
    with tempfile.TemporaryDirectory() as folder:
        for listen in ("127.0.0.1:0", f"unix:{folder}/socket"):
            for streams in (1, 2, 4, 8):
                for line in measure(arguments.bin, arguments.device, listen, streams):
                    print(json.dumps({**line, **run}), flush=True)


if __name__ == "__main__":
    main()
