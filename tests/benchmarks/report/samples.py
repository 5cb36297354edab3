# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Made-up lines for the tests, and their tables read back. Figures are chosen to be easy to divide."""

from report import measurements as m


def line(bench="kernel", log2=30, **keys) -> dict:
    """A line of sum of int32 over 2^log2 bytes, unless `keys` say otherwise."""
    return {"bench": bench, "algorithm": "auto", "operator": "sum", "dtype": "int32", "matrix": 0,
            "modulus": 0, "bytes": 1 << log2, "gbps": 4000.0, "ceiling_gbps": 5000.0, "device": m.GPU,
            "driver": "1.2", "commit": "c1", "date": "2026-01-02", "file": "a.jsonl", **keys}


def cub(log2=30, **keys) -> dict:
    return line(log2=log2, **{"cub_gbps": 2000.0, "cub_native_gbps": 3200.0, **keys})


def everything() -> m.Results:
    """Some lines of every kind."""
    kernels = [cub(log2, operator=op, dtype=dtype, gbps_p10=3900.0, gbps_p90=4100.0)
               for op in ("sum", "min", "max") for dtype in ("int32", "float64", "int8") for log2 in (20, 30)]
    kernels += [line(log2=log2, operator="matrix_product", dtype="uint32", matrix=4, modulus=modulus)
                for modulus in (0, 7) for log2 in (20, 30)]
    ladder = [line("textbook", algorithm="tree", published="sumTree", gbps=8.0, published_gbps=4.0, ratio=2.0,
                   wide_gbps=6.0, to_ceiling=0.002),
              line("textbook", to_ceiling=0.8)]
    from_host = [line("from_host", log2, us=10.0, us_p10=9.5, us_p90=11.0, empty_us=9.0, cub_us=12.0,
                      cub_mapped_us=11.0, thrust_us=23.4, thrust_scratch_us=18.0) for log2 in (10, 20)]
    cpu = [line("cpu", log2, dtype=dtype, threads=threads, device="Some CPU", gbps=10.0 * threads,
                ceiling_gbps=20.0 * threads, numpy_gbps=None if dtype == "bfloat16" else 5.0)
           for dtype in ("int32", "bfloat16") for threads in (1, 8) for log2 in (16, 30)]
    return m.Results(kernels, ladder, from_host, cpu, _way_in())


def _way_in() -> list:
    tcp = {"server": "cpu", "transport": "tcp", "streams": 2}
    return [line("load", case=case, method=method, side=side, gbps=gbps, p50_us=p50_us, **tcp)
            for case, method, side, gbps, p50_us in (
                ("streams", "reduce", "warpfold", 4.5, 1e5), ("streams", "reduce", "raw_socket", 9.0, 5e4),
                ("empty_call", "health", "warpfold", 0.0, 55.5))]


def cells(table: str) -> list:
    """Rows of a markdown table, header first, without the rule."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    return rows[:1] + rows[2:]
