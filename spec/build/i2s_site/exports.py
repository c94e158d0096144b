"""The table of the page on exports: who reads files by them, from the results of `python tests/peers exports`."""

from __future__ import annotations

import datetime
import json

from i2s_site.checkout import root
from i2s_site.runtimes import table
from i2s_spec.linter.runtimes.records import DecoderRun, decoders


def read_by() -> str:
    """A row for each language and tool that read the files."""
    shaders = next(run for run in decoders() if run.id == "wgsl-from-the-schema")
    rows = json.loads((root() / "tests" / "peers" / "exports.json").read_text(encoding="utf-8"))["rows"]
    return table(
        ["export", "read in", "with", "sound files, each field equal", "malformed files that end in an error", "run"],
        [
            [
                row["export"],
                row["title"],
                row["version"],
                " of ".join(map(str, row["sound"])),
                " of ".join(map(str, row["malformed"])),
                "in CI" if row["in_ci"] else _date(row["date"]),
            ]
            for row in rows
        ]
        + [["WGSL", "wgpu", shaders.version, f"{shaders.counts['pass']} of {_all(shaders)} vectors", "", "in CI"]],
    )


def _all(run: DecoderRun) -> int:
    return run.counts["pass"] + run.counts["fail"]


def _date(text: str) -> str:
    date = datetime.date.fromisoformat(text)
    return f"by hand, {date.day} {date:%B %Y}"
