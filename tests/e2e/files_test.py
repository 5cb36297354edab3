# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Files of `warpfold reduce`: archives, several files as one array, and what is wrong with bad ones."""

import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import time
import unittest
import warnings
import zipfile

import numpy
from executables import Server, TestCase, npy_bytes, reduce, value, warpfold


def wait_until_mapped(process: subprocess.Popen, path: pathlib.Path) -> None:
    maps = pathlib.Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and str(path) not in maps.read_text(encoding="utf-8"):
        time.sleep(0.01)


class Sparse(io.FileIO):
    """A file in which these zeros become a hole."""

    ZEROS = bytes(1 << 30)

    def write(self, data):
        if data is not self.ZEROS:
            return super().write(data)
        self.seek(len(data), io.SEEK_CUR)
        return len(data)


class Files(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())
        cls.address = cls.server.address

    def reduce(self, *arguments):
        return warpfold("reduce", "--target", self.address, "--op", "sum,argmax", *arguments)

    def archive(self, name, save=numpy.savez, **arrays):
        path = self.folder / name
        save(path, **arrays)
        return str(path)

    def test_members_stored_and_compressed(self):
        x = numpy.random.default_rng(1).standard_normal(300_000).astype("float32")
        expected = reduce(self.address, "--op", "sum,argmax", self.save("x.npy", x))
        for save in (numpy.savez, numpy.savez_compressed):
            path = self.archive("x.npz", save, x=x, other=numpy.arange(3))
            for member in ("x", "x.npy"):
                self.assertEqual(
                    reduce(self.address, "--op", "sum,argmax", "--member", member, path), expected
                )
            self.assertEqual(value(self.address, "sum", "--streams", "1", "--member", "other", path), 3)
            # A single member needs no name; and an archive is recognized by its content.
            alone = self.archive("alone.npz", save, x=x)
            disguised = self.file("disguised", pathlib.Path(alone).read_bytes())
            for one in (alone, disguised):
                self.assertEqual(reduce(self.address, "--op", "sum,argmax", one), expected)

    def test_odd_names(self):
        for name in ("[a,b]", "[a]", "[]", "++", "-x", "info"):
            self.file(name, bytes([1, 2, 3]))
            command = [os.environ["WARPFOLD_CLI"], "reduce", "--target", self.address]
            done = subprocess.run(
                [*command, "--op", "sum", "--dtype", "int8", *(["--"] if name == "-x" else []), name],
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((done.returncode, done.stdout), (0, "sum 6\n"), done.stderr)

    def test_several_files_are_one_array(self):
        x = numpy.random.default_rng(2).standard_normal(200_001)
        expected = reduce(self.address, "--op", "sum,argmax", self.save("all.npy", x))
        parts = numpy.split(x, [7, 7, 100_000])
        stored = [
            self.save("0.npy", parts[0]),
            self.file("1.raw", parts[1].tobytes()),
            self.archive("2.npz", x=parts[2]),
            self.file("3.raw", parts[3].tobytes()),
        ]
        packed = [*stored[:2], self.archive("4.npz", numpy.savez_compressed, x=parts[2]), stored[3]]
        for files in (stored, packed):
            self.assertEqual(
                reduce(self.address, "--op", "sum,argmax", "--dtype", "float64", *files), expected
            )
        self.assertEqual(
            reduce(
                self.address,
                "--op",
                "sum,argmax",
                "--dtype",
                "float64",
                "--streams",
                "4",
                "--checksum",
                "--request_id",
                "several",
                "--timeout",
                "60",
                *stored,
            ),
            expected,
        )

    def test_several_files_of_one_byte(self):
        paths = [self.file(str(i), bytes([i])) for i in (5, 7, 11)]
        self.assertEqual(value(self.address, "sum", "--dtype", "int8", *paths), 23)

    def test_several_files_without_elements(self):
        paths = [self.save(f"{i}.npy", numpy.zeros(0)) for i in range(16)]
        for count in (2, 3, 16):
            done = warpfold("reduce", "--target", self.address, "--op", "sum,product", *paths[:count])
            self.assertEqual((done.returncode, done.stdout), (0, "sum 0.0\nproduct 1.0\n"), done.stderr)

    def test_many_files_of_all_kinds_are_one_array(self):
        """Files that are cut anywhere; some of them are empty."""
        rng = numpy.random.default_rng(5)
        x = rng.standard_normal(1_000_000)
        cuts = numpy.sort(rng.integers(0, len(x), 150))
        cuts[1::40] = cuts[::40]
        expected = reduce(self.address, "--op", "sum,argmax", self.save("all.npy", x))
        for savers in ((numpy.savez,), (numpy.savez, numpy.savez_compressed)):
            files = [
                self.archive(f"{i}.npz", savers[i % len(savers)], x=part)
                if i % 3
                else self.file(f"{i}.raw", part.tobytes())
                for i, part in enumerate(numpy.split(x, cuts))
            ]
            self.assertEqual(
                reduce(self.address, "--op", "sum,argmax", "--dtype", "float64", *files), expected
            )

    def test_the_compressed_one_that_is_damaged_is_named(self):
        for length in (0, 50_000):
            good, bad = (
                self.archive(f"{name}.npz", numpy.savez_compressed, x=numpy.arange(length))
                for name in ("good", "bad")
            )
            data = bytearray(pathlib.Path(bad).read_bytes())
            data[data.rfind(b"PK\1\2") + 16] ^= 1  # the checksum
            pathlib.Path(bad).write_bytes(data)
            self.assert_exit(2, self.reduce(good, bad, good), "bad.npz: damaged: a member's checksum")

    def test_thousands_of_files_are_one_array(self):
        folder = self.folder / "many"
        folder.mkdir()
        paths = [str(folder / f"{i}.raw") for i in range(3000)]
        for i, path in enumerate(paths):
            pathlib.Path(path).write_bytes(numpy.int64(i).tobytes())

        def of_first(count, soft, hard):
            # If the limit is not raised, files are rejected by name, and gRPC never lacks descriptors.
            return warpfold(
                *("reduce", "--target", self.address, "--op", "sum", "--dtype", "int64", *paths[:count]),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
            )

        self.assertEqual(of_first(3000, 256, 4096).stdout, f"sum {3000 * 2999 // 2}\n")
        outcomes = set()
        for count in (*range(118, 132), 200, 248, 250, 252, 256, 300):
            done = of_first(count, 256, 256)
            outcomes.add(done.returncode)
            if done.returncode == 0:
                self.assertEqual(done.stdout, f"sum {count * (count - 1) // 2}\n")
            else:
                self.assert_exit(2, done, ".raw: too many files", "ulimit")
        self.assertEqual(outcomes, {0, 2})

    def test_the_next_target_is_tried(self):
        """If nobody listens at the first target, compressed members are unpacked again."""
        x = numpy.arange(1_000_000)
        packed = self.archive("x.npz", numpy.savez_compressed, x=x)
        for targets in (f"127.0.0.1:1,{self.address}", f"{self.address},127.0.0.1:1"):
            for files in ((packed,), (packed, self.save("x.npy", x))):
                self.assertEqual(value(targets, "sum", *files), len(files) * int(x.sum()))

    def test_matrices_of_several_files(self):
        x = numpy.random.default_rng(3).integers(0, 2**32, (60, 2, 2), dtype="uint32")
        whole = value(self.address, "matrix_product", self.save("all.npy", x))
        parts = [self.save("0.npy", x[:13]), self.archive("1.npz", numpy.savez_compressed, x=x[13:])]
        self.assertEqual(value(self.address, "matrix_product", *parts), whole)
        other = self.save("2.npy", numpy.zeros((1, 3, 3), "uint32"))
        self.assert_exit(
            2, warpfold("reduce", "--op", "matrix_product", parts[0], other), "2.npy", "3x3", "2x2"
        )

    def test_files_that_do_not_go_together(self):
        ints, floats = self.save("i.npy", numpy.arange(3)), self.save("f.npy", numpy.ones(3))
        self.assert_exit(2, self.reduce(ints, floats), "f.npy", "float64", "int64")
        self.assert_exit(2, self.reduce(ints, "-"), "standard input")
        self.assert_exit(2, self.reduce(ints, str(self.folder / "missing.npy")), "missing.npy", "open")

    def test_bad_archives(self):
        two = self.archive("two.npz", a=numpy.arange(3), b=numpy.arange(3))
        self.assert_exit(2, self.reduce(two), "--member", "a.npy, b.npy")
        self.assert_exit(2, self.reduce("--member", "c", two), "'c'", "a.npy, b.npy")
        self.assert_exit(2, self.reduce(self.file("e.npz", b"")), "not a zip file")
        self.assert_exit(
            2, self.reduce(self.file("t.npz", b"text that is no archive" * 100)), "not a zip file"
        )
        empty = io.BytesIO()
        zipfile.ZipFile(empty, "w").close()
        self.assert_exit(2, self.reduce(self.file("n.npz", empty.getvalue())), "n.npz", "without members")
        other = npy_bytes(numpy.arange(3)).replace(b"NUMPY", b"OTHER")
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for content in (b"no array", other):
                text = io.BytesIO()
                with zipfile.ZipFile(text, "w", compression) as archive:
                    archive.writestr("x.npy", content)
                done = self.reduce(self.file("x.npz", text.getvalue()))
                self.assert_exit(2, done, "x.npz", "member 'x.npy' is not an .npy file")

    def test_damaged_archives(self):
        """A byte that has changed, or bytes that are missing: never a value, and never a crash."""
        x = numpy.random.default_rng(4).integers(0, 9, 5000)
        for save in (numpy.savez, numpy.savez_compressed):
            data = bytearray(pathlib.Path(self.archive("x.npz", save, x=x)).read_bytes())
            for cut in (1, 30, len(data) // 2, len(data) - 30):
                self.assert_exit(2, self.reduce(self.file("cut.npz", data[:cut])), "cut.npz")
                if cut >= 30:  # what comes before a member's name
                    self.assert_exit(2, self.reduce("--dtype", "uint8", self.file("cut", data[:cut])), "cut")
            for at in (len(data) // 2, len(data) // 3):
                damaged = bytearray(data)
                damaged[at] ^= 0x55
                self.assert_exit(2, self.reduce(self.file("bad.npz", damaged)), "bad.npz", "damaged")

    def test_the_last_of_several_members_of_a_name(self):
        """As NumPy does it."""
        path = self.folder / "twice.npz"
        with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for length in (10, 100):
                archive.writestr("a.npy", npy_bytes(numpy.arange(length)))
        expected = int(numpy.load(path)["a"].sum())
        self.assertEqual(value(self.address, "sum", "--member", "a", str(path)), expected)

    def test_an_archive_is_none_of_raw_elements(self):
        x = numpy.arange(24)
        one = pathlib.Path(self.archive("one.npz", x=x)).read_bytes()
        two = pathlib.Path(self.archive("two.npz", x=x, y=x)).read_bytes()
        typed = ("--dtype", "int64")
        disguised, other = self.file("one.zip", one), self.file("two.zip", two)
        self.assertEqual(value(self.address, "sum", *typed, disguised), 276)
        self.assertEqual(value(self.address, "sum", *typed, "--member", "y", other), 276)
        self.assert_exit(2, self.reduce(*typed, other), "--member")
        self.assert_exit(2, self.reduce("--dtype", "uint8", disguised), "int64", "uint8")
        for flags in ((), typed, ("--dtype", "uint8")):
            for path in (disguised, other):
                self.assert_exit(2, warpfold("put", *flags, path), "an archive: unpack")
        # Elements that begin like an archive are distinguished from one by their end.
        elements = numpy.frombuffer(b"PK\3\4" + bytes(100_000), "<u4")
        raw = self.file("x.raw", elements.tobytes())
        self.assertEqual(value(self.address, "sum", "--dtype", "uint32", raw), int(elements.sum()))
        self.assert_exit(2, self.reduce(raw), "not a zip file, or a truncated one")

    def test_elements_that_begin_with_the_number_of_an_archive(self):
        for elements in (b"PK\3\4", b"PK\3\4" + bytes(96), b"PK\5\6" + bytes(96)):
            expected = int.from_bytes(elements[:4], "little")
            for path in ("-", self.file("x.raw", elements)):
                done = warpfold("reduce", "--target", self.address, "--op", "sum", "--dtype", "int32", path,
                                stdin=elements)
                with self.subTest(path):
                    self.assertEqual((done.returncode, done.stdout), (0, f"sum {expected}\n"), done.stderr)

    def test_other_compressions_are_named(self):
        for method, name in ((zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "LZMA")):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", method) as archive:
                archive.writestr("a.npy", npy_bytes(numpy.arange(10)))
            self.assert_exit(2, self.reduce(self.file("x.npz", file.getvalue())), "x.npz", "'a.npy'", name)

    def test_members_beyond_4_gib(self):
        path = self.folder / "large.npz"
        with Sparse(path, "w+b") as file, zipfile.ZipFile(file, "w") as archive:
            with archive.open("x.npy", "w", force_zip64=True) as member:
                length = 4 * len(Sparse.ZEROS) + 4
                shape = {"descr": "<i4", "fortran_order": False, "shape": (length // 4,)}
                numpy.lib.format.write_array_header_1_0(member, shape)
                for _ in range(4):
                    member.write(Sparse.ZEROS)
                member.write(b"last")
            archive.writestr("behind.npy", npy_bytes(numpy.arange(6)))
        self.assertEqual(value(self.address, "sum", "--member", "behind", str(path)), 15)
        # Its length is checked before its type. Its sum would take as long as all other tests.
        wrong_type = self.reduce("--member", "x", "--dtype", "int64", str(path))
        self.assert_exit(2, wrong_type, "the file holds int32")

    def test_a_long_check_does_not_hold_the_command(self):
        """A stored archive of 1 GB that takes no space on the disk, many times: checksums take a minute."""
        path = self.folder / "long.npz"
        with Sparse(path, "w+b") as file:
            with zipfile.ZipFile(file, "w") as archive, archive.open("x.npy", "w") as member:
                head = io.BytesIO()
                shape = {"descr": "<f8", "fortran_order": False, "shape": (1 << 27,)}
                numpy.lib.format.write_array_header_1_0(head, shape)
                member.write(head.getvalue())
                member.write(Sparse.ZEROS)
        start = time.monotonic()
        done = warpfold(
            "reduce", "--target", self.address, "--op", "sum", "--timeout", "1", *[str(path)] * 64
        )
        self.assertLess(time.monotonic() - start, 4)
        self.assert_exit(1, done, "DEADLINE_EXCEEDED")

    def test_a_file_that_is_written_to_while_it_is_sent(self):
        """Otherwise a value may be of old elements and of new ones."""
        ones = numpy.ones(8 << 20, "int32")
        raw = self.file("raw", ones.tobytes())
        archive = self.archive("x.npz", x=ones)
        sums = ("reduce", "--op", "sum", "--dtype", "int32")
        with Server("--resident_bytes=268435456") as server:
            for command in (
                (*sums, raw),
                (*sums, "--streams", "2", raw),
                (*sums, raw, archive),
                (*sums, archive),
                (*sums, "--segment_length", str(len(ones)), raw),
                ("put", "--dtype", "int32", raw),
            ):
                path = pathlib.Path(command[-1])
                content = path.read_bytes()
                with self.subTest(command):
                    server.process.send_signal(signal.SIGSTOP)
                    client = self.start(*command, "--target", server.address, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
                    wait_until_mapped(client, path)
                    with path.open("r+b") as file:
                        file.write(content[:4096] + b"\2" * (len(content) - 8192))
                    server.process.send_signal(signal.SIGCONT)
                    answer, error = client.communicate(timeout=60)
                    self.assertEqual(client.returncode, 2, error)
                    # Segments are printed as they come.
                    self.assertTrue(not answer or "--segment_length" in command, answer)
                    self.assertIn(bytes(path) + b": the file changed while it was read", error)
                path.write_bytes(content)
            kept = warpfold("arrays", "--target", server.address, "--json")
            self.assertEqual(json.loads(kept.stdout)["arrays"], [], kept.stderr)

    def test_a_member_that_is_not_as_long_as_it_says(self):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for data in (npy_bytes(numpy.arange(100))[:-8], npy_bytes(numpy.arange(100)) + b"12345678"):
                file = io.BytesIO()
                with zipfile.ZipFile(file, "w", compression) as archive:
                    archive.writestr("x.npy", data)
                self.assert_exit(2, self.reduce(self.file("x.npz", file.getvalue())), "x.npz", "bytes")

    def test_progress_and_summary(self):
        path = self.save("x.npy", numpy.arange(1_234_567))
        done = self.reduce("--progress", path)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.splitlines()[0], f"sum {1_234_567 * 1_234_566 // 2}")
        self.assertRegex(done.stderr, r"1,234,567 elements, 9\.88 MB, in \S+ s \(\S+ GB/s\) on ")
        self.assertEqual(self.reduce(path).stderr, "")
        self.assertEqual(len(self.reduce("--progress", "--json", path).stdout.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
