"""This module simulates a run over the files of a hub, file by file, from the measured cost of one file.

    python -m bench.hub            simulate, and write the tables of spec/hub.md and the numbers of bench/hub.json
    python -m bench.hub --measure  measure the processor time of headers first

Workers take files one after another. For each file a worker makes one request to the hub's resolver, whose rate is
limited for all workers together, then reads ranges from the address that it gets. `COSTS` says which numbers were
measured here, documented by others, or assumed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench" / "hub.json"
PAGE = ROOT / "spec" / "hub.md"

#: Files of the hub, rounded.
FILES = 2_000_000

#: Workers of each column of the tables.
WORKERS = (8, 32, 128, 512)

#: Markers around the tables of the page.
BEGIN, END = "<!-- simulated: begin -->", "<!-- simulated: end -->"


class Header(NamedTuple):
    """A kind of file: bytes of its header, its share of all files, processor seconds of its header's rules."""

    name: str
    size: int
    share: float
    processor: float


class Mode(NamedTuple):
    """How a file is read: requests after the resolver's answer, and bytes as a multiple of the header's."""

    name: str
    ranges: int
    factor: float


class Limit(NamedTuple):
    """The rate limit of the hub's resolver: answers in a number of seconds; None for no limit."""

    name: str
    requests: float | None
    seconds: float = 300.0


#: The header alone; and with the scales of all tensors, in the requests that a reader may need for them.
MODES = (Mode("headers", 3, 1.0), Mode("headers and scales", 11, 1.1))
LIMITS = (
    Limit("anonymous: 3,000 in 5 minutes", 3000),
    Limit("with a token: 5,000 in 5 minutes", 5000),
    Limit("no limit", None),
)

#: Seconds from a request to its first byte, and bytes per second of one worker.
LATENCY = 0.08
BANDWIDTH = 50e6


class Outcome(NamedTuple):
    """The result of a run: hours, requests, bytes, and the share of the workers' time spent waiting for the hub."""

    hours: float
    requests: int
    bytes: int
    waiting: float


def kinds_of(headers: Sequence[Header], files: int, seed: int = 0) -> list[int]:
    """The kind of each file, drawn by the shares; the same for the same seed."""
    return random.Random(seed).choices(range(len(headers)), [header.share for header in headers], k=files)


def simulate(kinds: Sequence[int], headers: Sequence[Header], workers: int, mode: Mode, limit: Limit) -> Outcome:
    """Simulate a run over all files: each starts when a worker is free and the hub's bucket holds a request."""
    seconds = [
        (1 + mode.ranges) * LATENCY + header.size * mode.factor / BANDWIDTH + header.processor for header in headers
    ]
    gap = 0.0 if limit.requests is None else limit.seconds / limit.requests
    burst = 0.0 if limit.requests is None else limit.seconds - gap
    free, due, waited = [0.0] * workers, 0.0, 0.0
    for kind in kinds:
        start = free[0]
        if due - burst > start:  # the bucket is empty until then
            waited += due - burst - start
            start = due - burst
        due = max(due, start) + gap
        heapq.heapreplace(free, start + seconds[kind])
    end = max(free)
    sizes = [int(header.size * mode.factor) for header in headers]
    return Outcome(
        end / 3600, len(kinds) * (1 + mode.ranges), sum(sizes[kind] for kind in kinds), waited / (workers * end)
    )


def measure() -> list[float]:
    """Processor seconds for linting headers: the least of many runs over three files made here."""
    from bench import headers
    from i2s_spec.convert.synthetic.new import new
    from i2s_spec.linter.engine import lint

    found = []
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.gguf"
        headers.bitnet().write(large)
        small = Path(folder) / "small.gguf"
        new(small, "bitnet-b1.58")
        for path in (small, large):
            times = []
            for _ in range(40):
                begin = process_time()
                lint(path, payload="none")
                times.append(process_time() - begin)
            found.append(min(times))
    return found


def run(files: int, headers: Sequence[Header]) -> dict[str, Any]:
    """Every table as plain data."""
    kinds = kinds_of(headers, files)
    tables = []
    for mode in MODES:
        for limit in LIMITS:
            outcomes = [simulate(kinds, headers, workers, mode, limit) for workers in WORKERS]
            tables.append({"mode": mode.name, "limit": limit.name, "outcomes": [each._asdict() for each in outcomes]})
    return {
        "schema_version": 1,
        "files": files,
        "headers": [header._asdict() for header in headers],
        "latency": LATENCY,
        "bandwidth": BANDWIDTH,
        "workers": list(WORKERS),
        "tables": tables,
    }


def tables_of(result: dict[str, Any]) -> str:
    """The numbers as the tables of the page."""
    lines = ["| header | bytes | share of the files | processor time |", "|---|---|---|---|"]
    for header in result["headers"]:
        lines.append(
            f"| {header['name']} | {header['size']:,} | {header['share']:.0%} | {header['processor'] * 1e3:.1f} ms |"
        )
    for mode in dict.fromkeys(table["mode"] for table in result["tables"]):
        of_mode = [table for table in result["tables"] if table["mode"] == mode]
        first = of_mode[0]["outcomes"][0]
        lines += ["", f"**{mode.capitalize()}**: {first['requests']:,} requests, {first['bytes'] / 1e12:.1f} TB.", ""]
        lines.append("| hours | " + " | ".join(f"{workers} workers" for workers in result["workers"]) + " |")
        lines.append("|---|" + "---|" * len(result["workers"]))
        for table in of_mode:
            cells = [f"{each['hours']:.1f} ({each['waiting']:.0%})" for each in table["outcomes"]]
            lines.append(f"| {table['limit']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page_with(result: dict[str, Any], page: str) -> str:
    """The page with new tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables_of(result)}\n\n{END}{after}"


def main() -> None:
    """Simulate, and write page and numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure the processor time of headers first")
    parser.add_argument("--files", type=int, default=FILES, help=f"how many files there are (default {FILES:,})")
    asked = parser.parse_args()
    headers = [Header(**header) for header in json.loads(RESULT.read_text(encoding="utf-8"))["headers"]]
    if asked.measure:
        small, large = measure()
        per_byte = (large - small) / headers[-1].size
        headers = [header._replace(processor=round(small + per_byte * header.size, 5)) for header in headers]
    result = run(asked.files, headers)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page_with(result, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    hours = statistics.median(each["hours"] for table in result["tables"] for each in table["outcomes"])
    print(f"{asked.files:,} files, {len(result['tables'])} tables, median {hours:.1f} hours")


if __name__ == "__main__":
    main()
