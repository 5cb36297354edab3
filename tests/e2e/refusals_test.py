# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that do not start: one line names the flag and the reason, and nothing was served."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import unittest
from typing import Iterator

from executables import DEVICE, Server, TestCase, killed_after, run_server, value, warpfold
from keys import allow_all

_WRONG = 2  # a flag is wrong, or what it names is
_TOO_MUCH = 3  # more than the device or the system has


@contextlib.contextmanager
def control_group(limit_bytes: int) -> Iterator[tuple[str, ...]]:
    """Gives the words before a command that run it with no more memory than that, or none if the system does
    not let anybody make such a group."""
    second_version = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    root = pathlib.Path("/sys/fs/cgroup" if second_version else "/sys/fs/cgroup/memory")
    group = root / f"warpfold_refusals_test_{os.getpid()}"
    limit = group / ("memory.max" if second_version else "memory.limit_in_bytes")
    inside = ("sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh")
    try:
        group.mkdir()
    except OSError:
        yield ()
        return
    try:
        # A group does not have this file if its parent does not pass the controller on.
        allowed = limit.exists() and os.access(limit, os.W_OK)
        if allowed:
            limit.write_text(str(limit_bytes))
            tried = subprocess.run([*inside, "true"], stderr=subprocess.DEVNULL, check=False)
            allowed = tried.returncode == 0
        yield inside if allowed else ()
    finally:
        # Its processes have ended, unless the test has failed: then the folder stays, too.
        with contextlib.suppress(OSError):
            group.rmdir()


class RefusalsTest(TestCase):
    """Each is rejected together with a Unix socket that could be served, and is not."""

    def assert_refused(self, code: int, flag: str, reason: str, *flags: str, prefix: tuple[str, ...] = ()):
        """`reason` is a regular expression."""
        device = () if any(given.startswith("--device") for given in flags) else (f"--device={DEVICE}",)
        with self.subTest(" ".join(flags)):
            done = run_server(*device, *flags, prefix=prefix)
            self.assert_exit(code, done, flag)
            self.assertRegex(done.stderr, reason)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertEqual(list(self.folder.glob("*.sock")), [])

    def test_names_of_which_another_process_has_an_address(self):
        """Clients that use the name would reach that one."""
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 two.test\n127.0.0.1 other two.test\n::1 two.test\n")
        inside = ("unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh")
        if subprocess.run([*inside, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("no namespace of mounts is to be had")
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as other:
                other.bind((host, 0))
                port = other.getsockname()[1]
                self.assert_refused(_WRONG, f"--listen: two.test:{port}", "Address already in use",
                                    f"--listen=two.test:{port}", prefix=inside)

    def test_a_wildcard_of_which_another_process_has_an_address(self):
        with socket.socket(socket.AF_INET6) as other:
            try:
                other.bind(("::1", 0))
            except OSError as error:
                self.skipTest(f"no IPv6: {error}")
            port = other.getsockname()[1]
            for host in ("0.0.0.0", "[::]"):
                self.assert_refused(_WRONG, f"--listen: {host}:{port}", "Address already in use",
                                    f"--listen={host}:{port}", "--allow_insecure")

    def test_help_that_cannot_be_written(self):
        for flag in ("--help", "--version"):
            done = run_server(flag, prefix=("sh", "-c", 'exec "$@" >/dev/full', "sh"))
            self.assertEqual((done.returncode, done.stderr), (_WRONG, "cannot write to standard output\n"))

    def refusals_until_ready(self, limit: str, least: int, codes: tuple[int, ...], command: tuple[str, ...],
                             user: tuple[str, ...] = ()) -> Iterator[str]:
        """What the server writes to its standard error for each number of what prlimit(1) calls `limit`,
        until it serves with one; before that it ends with one of the codes."""
        for most in range(least, 200):
            with subprocess.Popen([*user, "prlimit", f"--{limit}={most}", *command],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process, \
                    killed_after(30, process):
                ready = process.stdout.readline().startswith("READY")
                if ready:
                    process.terminate()
                said = process.stderr.read()
                self.assertIn(process.wait(), (0,) if ready else codes, f"{limit}={most}: {said}")
            if ready:
                return
            yield said
        self.fail(f"{limit}=200 is too little")

    def test_too_few_threads(self):
        """gRPC waits for ever for a thread that cannot be made."""
        user = ("setpriv", "--reuid=61234", "--regid=61234", "--clear-groups")
        server = os.environ["WARPFOLD_SERVER"]
        if os.geteuid() != 0 or subprocess.run([*user, server, "--version"], check=False,
                                               capture_output=True).returncode != 0:
            self.skipTest("no other user can run the server, and root has as many threads as it likes")
        memory = self.folder / "memory"
        memory.mkdir()
        memory.chmod(0o777)
        self.folder.chmod(0o755)
        command = (server, "--listen=127.0.0.1:0", "--device=cpu", "--cpu_threads=2",
                   "--admin_listen=127.0.0.1:0", allow_all(str(self.folder)),
                   f"--memory_socket={memory}/socket")
        for said in self.refusals_until_ready("nproc", 2, (_TOO_MUCH,), command, user):
            self.assertIn("the system allows", said)
            self.assertEqual(list(memory.iterdir()), [])
        self.assertEqual(list(memory.iterdir()), [])

    def test_too_few_descriptors(self):
        command = (os.environ["WARPFOLD_SERVER"], "--listen=127.0.0.1:0", "--admin_listen=127.0.0.1:0",
                   "--device=cpu", "--cpu_threads=2")
        for said in self.refusals_until_ready("nofile", 4, (_WRONG, _TOO_MUCH), command):
            self.assertIn("critical", said)

    def test_flags_that_are_unknown_or_have_no_such_value(self):
        self.assert_refused(_WRONG, "--no_such_flag", "not expected", "--no_such_flag")
        self.assert_refused(_WRONG, "no_such_word", "not expected", "no_such_word")
        self.assert_refused(_WRONG, "--device", "must be auto", "--device=gpu")
        self.assert_refused(_WRONG, "--slots", "not in range", "--slots=0")
        self.assert_refused(_WRONG, "--slots", "x", "--slots=x")
        self.assert_refused(_WRONG, "--slot_bytes", "multiple of 65536", "--slot_bytes=65537")
        self.assert_refused(_WRONG, "--listen", "must be host:port", "--listen=nowhere")

    def test_flags_that_contradict_each_other(self):
        self.assert_refused(_WRONG, "--tls_key", "requires", "--tls_cert=/dev/null")
        self.assert_refused(_WRONG, "--tls_cert", "requires", "--tls_key=/dev/null")
        self.assert_refused(_WRONG, "--tls_cert", "requires", "--tls_client_ca=/dev/null")
        self.assert_refused(_WRONG, "--memory_socket", "requires", "--memory_socket_users=1")
        self.assert_refused(_WRONG, "--slots", "given more than once", "--slots=1", "--slots=2")
        self.assert_refused(_WRONG, "--admin_listen", "must not be an address of --listen",
                            "--listen=127.0.0.1:1", "--admin_listen=127.0.0.1:1")
        path = self.folder / "socket"
        self.assert_refused(_WRONG, "--memory_socket", "must not be an address of --listen",
                            f"--listen=127.0.0.1:0,unix:{path}", f"--memory_socket={path}")
        self.assert_refused(_WRONG, "--memory_socket", "must not be an address of --listen",
                            f"--listen=unix://{path}", f"--memory_socket={path}")

    def test_client_certificates_without_a_list(self):
        tls = ("--tls_cert=/dev/null", "--tls_key=/dev/null", "--tls_client_ca=/dev/null")
        self.assert_refused(_WRONG, "--tls_client_ca: needs --allow", re.escape('the one line "* *" allows'),
                            *tls)

    def test_certificates_that_cannot_be_read(self):
        bad = self.file("bad.pem", b"not a certificate")
        none = str(self.folder / "none.pem")
        address = f"--listen=unix:{self.folder}/a.sock"
        self.assert_refused(_WRONG, "--tls_cert", "does not exist", address, f"--tls_cert={none}",
                            f"--tls_key={bad}")
        self.assert_refused(_WRONG, "--tls_cert", "no PEM block", address, f"--tls_cert={bad}",
                            f"--tls_key={bad}")

    def test_addresses_in_use(self):
        with socket.socket() as other, Server(listen=f"unix:{self.folder}/served,127.0.0.1:0") as server:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = f"127.0.0.1:{other.getsockname()[1]}"
            beside = f"unix:{self.folder}/a.sock"
            for address in (*server.address.split(","), taken):
                reason = "listens on it" if address.startswith("unix:") else "in use"
                self.assert_refused(_WRONG, f"--listen: {address}", reason, f"--listen={beside},{address}")
            self.assert_refused(_WRONG, "--admin_listen", "in use", f"--listen={beside}",
                                f"--admin_listen={taken}")
            for address in server.address.split(","):  # they still belong to the first server
                self.assertEqual(value(address, "max", "--iota", "1000"), 999)

    def test_paths_that_exist(self):
        path = self.file("kept", b"a file of somebody's")
        self.assert_refused(_WRONG, f"--listen: unix:{path}", "there is a regular file at this path",
                            f"--listen=unix:{path}")
        self.assert_refused(_WRONG, "--memory_socket", "there is a file that is not a socket",
                            f"--listen=unix:{self.folder}/a.sock", f"--memory_socket={path}")
        with open(path, "rb") as kept:
            self.assertEqual(kept.read(), b"a file of somebody's")

    def test_a_socket_on_which_a_server_listens(self):
        path = f"{self.folder}/live"
        with Server(listen=f"unix:{path}") as server:
            self.assert_refused(_WRONG, "--memory_socket", "listens there", f"--memory_socket={path}")
            self.assertEqual(value(server.address, "max", "--iota", "1000"), 999)

    def test_a_device_that_is_not_there(self):
        reason = r": (this build has no CUDA|there is no GPU|no GPU cuda:(62|63|4711); there are \d+)\n"
        for device in ("cuda:63", "cuda:4711", "cuda:62,cuda:63"):
            self.assert_refused(_TOO_MUCH, f"--device={device}", reason, f"--device={device}")

    def test_more_than_the_system_has(self):
        limits = ("prlimit", f"--as={1 << 30}", f"--stack={8 << 20}")
        if run_server("--help", prefix=limits).returncode != 0:
            self.skipTest("a sanitizer, say, needs more address space than that")
        self.assert_refused(_TOO_MUCH, "--slots=2", "no memory for 2 slots of 1073741824 bytes",
                            "--device=cpu", "--slots=2", "--slot_bytes=1073741824", prefix=limits)
        self.assert_refused(_TOO_MUCH, "--cpu_threads=1024", "of 1024 threads", "--device=cpu",
                            "--cpu_threads=1024", prefix=limits)
        self.assert_refused(_TOO_MUCH, f"--resident_bytes={1 << 34}", "no memory for", "--device=cpu",
                            f"--resident_bytes={1 << 34}", prefix=limits)

    def test_less_memory_than_one_kept_array_takes(self):
        for too_few in (1, 511, 512, 1023):
            self.assert_refused(_WRONG, f"--resident_bytes={too_few}: ", "at least 1024", "--device=cpu",
                                f"--resident_bytes={too_few}")
        self.assert_refused(_WRONG, "--resident_owner_bytes", "511 not in range", "--resident_bytes=1048576",
                            "--resident_owner_bytes=511")
        array = pathlib.Path(self.folder) / "array"
        array.write_bytes(bytes(512))
        with Server("--resident_bytes=1024", "--resident_owner_bytes=512") as server:
            done = warpfold("put", "--target", server.address, "--dtype", "uint8", str(array))
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_more_slots_than_the_machine_has_memory_for(self):
        text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
        if int(re.search(r"MemAvailable:\s+(\d+) kB", text)[1]) > 200 << 20:
            self.skipTest("so much memory is not to be taken by a test")
        self.assert_refused(_TOO_MUCH, "--slots=256 --slot_bytes=1073741824", "of memory are available",
                            "--slots=256", f"--slot_bytes={1 << 30}")
        # If there is a control group, it never allows that, and the sentence is a different one.
        done = run_server("--device=cpu", f"--resident_bytes={1 << 46}")
        self.assertIn(done.returncode, (_WRONG, _TOO_MUCH))
        self.assertRegex(done.stderr, f"--resident_bytes={1 << 46}: .*memory")

    def test_more_than_the_control_group_allows(self):
        with control_group(1 << 30) as inside:
            if not inside:
                self.skipTest("no control group can be made")
            self.assert_refused(_WRONG, "--max_concurrent_reductions=64",
                                "memory: at most [0-9]+ MiB .* the control group .* allows 1024 MiB",
                                "--device=cpu", "--slots=2", prefix=inside)
            self.assert_refused(_TOO_MUCH, "--slots=256 --slot_bytes=1073741824", "of memory are available",
                                "--device=cpu", "--slots=256", f"--slot_bytes={1 << 30}", prefix=inside)
            with Server("--max_concurrent_reductions=4", "--max_connections=16", "--slots=2", device="cpu",
                        prefix=inside) as server:
                self.assertEqual(value(server.address, "max", "--iota", "1000000"), 999999)

    @unittest.skipIf(DEVICE == "cpu", "needs a GPU")
    def test_more_than_the_device_has(self):
        self.assert_refused(_TOO_MUCH, f"--resident_bytes={1 << 40}", "the GPU has no room for [0-9]+ bytes",
                            f"--resident_bytes={1 << 40}")

    @unittest.skipIf(DEVICE == "cpu", "needs a GPU")
    def test_auto_does_not_hide_a_gpu_that_cannot_be_used(self):
        # CUDA reserves more address space than this process may have.
        done = run_server("--device=auto", prefix=("prlimit", f"--as={8 << 30}"))
        self.assert_exit(_TOO_MUCH, done, "--device=auto")


if __name__ == "__main__":
    unittest.main()
