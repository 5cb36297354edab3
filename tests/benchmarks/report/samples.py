# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Invented lines for the tests, and their tables read back. Figures are chosen to be easy to divide."""

from report import measurements as m


def line(bench="kernel", log2=30, **keys) -> dict:
    """A line for a sum of int32 over 2^log2 bytes, unless `keys` say otherwise."""
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


def load(case: str, side: str = "warpfold", **keys) -> dict:
    """A line of the way in, unless `keys` say otherwise."""
    return line("load", **{"case": case, "side": side, "method": "reduce", "source": "chunks",
                           "server": f"cuda:0 {m.GPU}", "transport": "unix", "streams": 1, "p50_us": 100.0,
                           "p99_us": 200.0, "max_us": 900.0, "kernel_us": 0.0, "server_cpu_s_per_gb": 0.2,
                           **keys})


def _way_in() -> list:
    sides = (("warpfold", 4.5), ("raw_socket", 5.0), ("async_copy", 3.5), ("async_drop", 4.75),
             ("async_hold", 4.0), ("plain_service", 2.5), ("flight", 2.0))
    sent = [load("streams", side, transport=transport, streams=streams, gbps=gbps * streams,
                 gbps_min=0.9 * gbps * streams, gbps_max=1.25 * gbps * streams, server_cpu_s_per_gb=1 / gbps)
            for transport in ("tcp", "unix") for streams in (1, 2, 4, 8) for side, gbps in sides]
    kept = [load(case, source=source, gbps=gbps, bytes=bytes_, transport=transport, **rows)
            for transport in ("tcp", "unix") for bytes_ in (1 << 30, 4 << 30)
            for case, source, gbps, rows in (
                ("ipc", "ipc", 3500.0, {}), ("resident", "resident", 3400.0, {}),
                ("rows_of_16_kib", "resident", 1000.0, {"segment_length": 4096}))]
    return sent + kept + [load("memory", source="memory", gbps=50.0),
                          load("empty_call", method="health", gbps=0.0, p50_us=55.5)]


def cells(table: str) -> list:
    """Rows of a markdown table, header first, without the rule."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    return rows[:1] + rows[2:]
