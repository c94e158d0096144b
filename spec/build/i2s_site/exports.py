"""The table of the page on exports: who reads files by them, from `tests/peers/exports.json`."""

from __future__ import annotations

import datetime
import json

from i2s_site.checkout import root
from i2s_site.runtimes import table


def read_by() -> str:
    """A row for each language and tool that read the files."""
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
        ],
    )


def _date(text: str) -> str:
    date = datetime.date.fromisoformat(text)
    return f"by hand, {date.day} {date:%B %Y}"
